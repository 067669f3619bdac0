// RUN: kiln-opt %s --cpu-view-words --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --cpu-view-words --run-reference --split-input-file -o /dev/null

// CHECK-LABEL: func.func @words
// CHECK: %[[Q:.*]] = kernel.map
// CHECK: } : tensor<?x8xui8, #sym.shape<[s0, 8]>>
// CHECK-NEXT: %[[W:.*]] = kernel.bitcast %[[Q]] : tensor<?x8xui8, #sym.shape<[s0, 8]>> -> tensor<?x2xi32, #sym.shape<[s0, 2]>>
// CHECK-NEXT: return %[[W]]
func.func @words(%x: tensor<?x8xf32, #sym.shape<[s0, 8]>>) -> tensor<?x2xi32, #sym.shape<[s0, 2]>> {
  %q = kernel.map {
    %0 = kernel.read %x (d0, d1) -> (d0, d1) : tensor<?x8xf32, #sym.shape<[s0, 8]>> -> f32
    %1 = arith.fptosi %0 : f32 to i32
    %2 = arith.trunci %1 : i32 to i8
    kernel.yield %2 : i8
  } : tensor<?x8xui8, #sym.shape<[s0, 8]>>
  %w = kernel.map {
    %c8 = arith.constant 8 : i32
    %c16 = arith.constant 16 : i32
    %c24 = arith.constant 24 : i32
    %0 = kernel.read %q (d0, d1) -> (d0, 4*d1) : tensor<?x8xui8, #sym.shape<[s0, 8]>> -> i8
    %1 = arith.extui %0 : i8 to i32
    %2 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 1) : tensor<?x8xui8, #sym.shape<[s0, 8]>> -> i8
    %3 = arith.extui %2 : i8 to i32
    %4 = arith.shli %3, %c8 : i32
    %5 = arith.ori %1, %4 : i32
    %6 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 2) : tensor<?x8xui8, #sym.shape<[s0, 8]>> -> i8
    %7 = arith.extui %6 : i8 to i32
    %8 = arith.shli %7, %c16 : i32
    %9 = arith.ori %5, %8 : i32
    %10 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 3) : tensor<?x8xui8, #sym.shape<[s0, 8]>> -> i8
    %11 = arith.extui %10 : i8 to i32
    %12 = arith.shli %11, %c24 : i32
    %13 = arith.ori %9, %12 : i32
    kernel.yield %13 : i32
  } : tensor<?x2xi32, #sym.shape<[s0, 2]>>
  return %w : tensor<?x2xi32, #sym.shape<[s0, 2]>>
}

// -----

// The host's tensors lie at any byte.
// CHECK-LABEL: func.func @host
// CHECK-NOT: kernel.bitcast
// CHECK: return
func.func @host(%q: tensor<4x8xui8>) -> tensor<4x2xi32> {
  %w = kernel.map {
    %r0 = kernel.read %q (d0, d1) -> (d0, 4*d1) : tensor<4x8xui8> -> i8
    %e0 = arith.extui %r0 : i8 to i32
    %c0 = arith.constant 0 : i32
    %s0 = arith.shli %e0, %c0 : i32
    %r1 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 1) : tensor<4x8xui8> -> i8
    %e1 = arith.extui %r1 : i8 to i32
    %c1 = arith.constant 8 : i32
    %s1 = arith.shli %e1, %c1 : i32
    %r2 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 2) : tensor<4x8xui8> -> i8
    %e2 = arith.extui %r2 : i8 to i32
    %c2 = arith.constant 16 : i32
    %s2 = arith.shli %e2, %c2 : i32
    %r3 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 3) : tensor<4x8xui8> -> i8
    %e3 = arith.extui %r3 : i8 to i32
    %c3 = arith.constant 24 : i32
    %s3 = arith.shli %e3, %c3 : i32
    %o1 = arith.ori %s0, %s1 : i32
    %o2 = arith.ori %o1, %s2 : i32
    %o3 = arith.ori %o2, %s3 : i32
    kernel.yield %o3 : i32
  } : tensor<4x2xi32>
  return %w : tensor<4x2xi32>
}

// -----

// Bytes that are a row apart are no word.
// CHECK-LABEL: func.func @rows
// CHECK-NOT: kernel.bitcast
// CHECK: return
func.func @rows(%x: tensor<8x4xf32>) -> tensor<4x2xi32> {
  %q = kernel.map {
    %0 = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    %1 = arith.fptosi %0 : f32 to i32
    %2 = arith.trunci %1 : i32 to i8
    kernel.yield %2 : i8
  } : tensor<8x4xui8>
  %w = kernel.map {
    %r0 = kernel.read %q (d0, d1) -> (4*d1, d0) : tensor<8x4xui8> -> i8
    %e0 = arith.extui %r0 : i8 to i32
    %c0 = arith.constant 0 : i32
    %s0 = arith.shli %e0, %c0 : i32
    %r1 = kernel.read %q (d0, d1) -> (4*d1 + 1, d0) : tensor<8x4xui8> -> i8
    %e1 = arith.extui %r1 : i8 to i32
    %c1 = arith.constant 8 : i32
    %s1 = arith.shli %e1, %c1 : i32
    %r2 = kernel.read %q (d0, d1) -> (4*d1 + 2, d0) : tensor<8x4xui8> -> i8
    %e2 = arith.extui %r2 : i8 to i32
    %c2 = arith.constant 16 : i32
    %s2 = arith.shli %e2, %c2 : i32
    %r3 = kernel.read %q (d0, d1) -> (4*d1 + 3, d0) : tensor<8x4xui8> -> i8
    %e3 = arith.extui %r3 : i8 to i32
    %c3 = arith.constant 24 : i32
    %s3 = arith.shli %e3, %c3 : i32
    %o1 = arith.ori %s0, %s1 : i32
    %o2 = arith.ori %o1, %s2 : i32
    %o3 = arith.ori %o2, %s3 : i32
    kernel.yield %o3 : i32
  } : tensor<4x2xi32>
  return %w : tensor<4x2xi32>
}

// -----

// Nor are they in another order.
// CHECK-LABEL: func.func @order
// CHECK-NOT: kernel.bitcast
// CHECK: return
func.func @order(%x: tensor<4x8xf32>) -> tensor<4x2xi32> {
  %q = kernel.map {
    %0 = kernel.read %x (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
    %1 = arith.fptosi %0 : f32 to i32
    %2 = arith.trunci %1 : i32 to i8
    kernel.yield %2 : i8
  } : tensor<4x8xui8>
  %w = kernel.map {
    %r0 = kernel.read %q (d0, d1) -> (d0, 4*d1) : tensor<4x8xui8> -> i8
    %e0 = arith.extui %r0 : i8 to i32
    %c0 = arith.constant 0 : i32
    %s0 = arith.shli %e0, %c0 : i32
    %r1 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 2) : tensor<4x8xui8> -> i8
    %e1 = arith.extui %r1 : i8 to i32
    %c1 = arith.constant 8 : i32
    %s1 = arith.shli %e1, %c1 : i32
    %r2 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 1) : tensor<4x8xui8> -> i8
    %e2 = arith.extui %r2 : i8 to i32
    %c2 = arith.constant 16 : i32
    %s2 = arith.shli %e2, %c2 : i32
    %r3 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 3) : tensor<4x8xui8> -> i8
    %e3 = arith.extui %r3 : i8 to i32
    %c3 = arith.constant 24 : i32
    %s3 = arith.shli %e3, %c3 : i32
    %o1 = arith.ori %s0, %s1 : i32
    %o2 = arith.ori %o1, %s2 : i32
    %o3 = arith.ori %o2, %s3 : i32
    kernel.yield %o3 : i32
  } : tensor<4x2xi32>
  return %w : tensor<4x2xi32>
}

// -----

// Bytes with signs are multiplied as other numbers.
// CHECK-LABEL: func.func @flipped
// CHECK-NOT: kernel.bitcast
// CHECK: return
func.func @flipped(%x: tensor<4x8xf32>) -> tensor<4x2xi32> {
  %q = kernel.map {
    %0 = kernel.read %x (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
    %1 = arith.fptosi %0 : f32 to i32
    %2 = arith.trunci %1 : i32 to i8
    kernel.yield %2 : i8
  } : tensor<4x8xui8>
  %w = kernel.map {
    %r0 = kernel.read %q (d0, d1) -> (d0, 4*d1) : tensor<4x8xui8> -> i8
    %e0 = arith.extui %r0 : i8 to i32
    %c0 = arith.constant 0 : i32
    %s0 = arith.shli %e0, %c0 : i32
    %r1 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 1) : tensor<4x8xui8> -> i8
    %e1 = arith.extui %r1 : i8 to i32
    %c1 = arith.constant 8 : i32
    %s1 = arith.shli %e1, %c1 : i32
    %r2 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 2) : tensor<4x8xui8> -> i8
    %e2 = arith.extui %r2 : i8 to i32
    %c2 = arith.constant 16 : i32
    %s2 = arith.shli %e2, %c2 : i32
    %r3 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 3) : tensor<4x8xui8> -> i8
    %e3 = arith.extui %r3 : i8 to i32
    %c3 = arith.constant 24 : i32
    %s3 = arith.shli %e3, %c3 : i32
    %o1 = arith.ori %s0, %s1 : i32
    %o2 = arith.ori %o1, %s2 : i32
    %o3 = arith.ori %o2, %s3 : i32
    %flip = arith.constant 0x80808080 : i32
    %o4 = arith.xori %o3, %flip : i32
    kernel.yield %o4 : i32
  } : tensor<4x2xi32>
  return %w : tensor<4x2xi32>
}

// -----

// What is seen in another order is in memory in its own.
// CHECK-LABEL: func.func @views
// CHECK-NOT: kernel.bitcast
// CHECK: return
func.func @views(%x: tensor<8x4xf32>) -> tensor<4x2xi32> {
  %p = kernel.map {
    %0 = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    %1 = arith.fptosi %0 : f32 to i32
    %2 = arith.trunci %1 : i32 to i8
    kernel.yield %2 : i8
  } : tensor<8x4xui8>
  %q = kernel.map {
    %0 = kernel.read %p (d0, d1) -> (d1, d0) : tensor<8x4xui8> -> i8
    kernel.yield %0 : i8
  } : tensor<4x8xui8>
  %w = kernel.map {
    %r0 = kernel.read %q (d0, d1) -> (d0, 4*d1) : tensor<4x8xui8> -> i8
    %e0 = arith.extui %r0 : i8 to i32
    %c0 = arith.constant 0 : i32
    %s0 = arith.shli %e0, %c0 : i32
    %r1 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 1) : tensor<4x8xui8> -> i8
    %e1 = arith.extui %r1 : i8 to i32
    %c1 = arith.constant 8 : i32
    %s1 = arith.shli %e1, %c1 : i32
    %r2 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 2) : tensor<4x8xui8> -> i8
    %e2 = arith.extui %r2 : i8 to i32
    %c2 = arith.constant 16 : i32
    %s2 = arith.shli %e2, %c2 : i32
    %r3 = kernel.read %q (d0, d1) -> (d0, 4*d1 + 3) : tensor<4x8xui8> -> i8
    %e3 = arith.extui %r3 : i8 to i32
    %c3 = arith.constant 24 : i32
    %s3 = arith.shli %e3, %c3 : i32
    %o1 = arith.ori %s0, %s1 : i32
    %o2 = arith.ori %o1, %s2 : i32
    %o3 = arith.ori %o2, %s3 : i32
    kernel.yield %o3 : i32
  } : tensor<4x2xi32>
  return %w : tensor<4x2xi32>
}
