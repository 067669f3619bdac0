// RUN: kiln-opt %s --kernel-share-reductions --canonicalize --split-input-file | FileCheck %s

// A softmax over channels: maxima and inverses of sums are maps over the pixels.
// CHECK-LABEL: func.func @channels
// CHECK-NEXT: %[[MAX:.*]] = kernel.map {
// CHECK: kernel.reduce [64]
// CHECK-NEXT: kernel.read %{{.*}} (d0, d1, d2) -> (d2, d0, d1)
// CHECK: arith.maximumf
// CHECK: } : tensor<32x40xf32>
// CHECK-NEXT: %[[INVERSE:.*]] = kernel.map {
// CHECK: kernel.read %[[MAX]] (d0, d1) -> (d0, d1)
// CHECK: kernel.reduce [64]
// CHECK: arith.divf
// CHECK-NEXT: kernel.yield
// CHECK: } : tensor<32x40xf32>
// CHECK-NEXT: %[[Y:.*]] = kernel.map {
// CHECK-NOT: kernel.reduce
// CHECK-DAG: kernel.read %[[MAX]] (d0, d1, d2) -> (d1, d2)
// CHECK-DAG: kernel.read %[[INVERSE]] (d0, d1, d2) -> (d1, d2)
// CHECK: } : tensor<64x32x40xf32>
// CHECK-NEXT: return %[[Y]]
func.func @channels(%x: tensor<64x32x40xf32>) -> tensor<64x32x40xf32> {
  %y = kernel.map {
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %a = kernel.read %x (d0, d1, d2) -> (d0, d1, d2) : tensor<64x32x40xf32> -> f32
    %max = kernel.reduce [64] init(%lowest : f32) {
      %b = kernel.read %x (d0, d1, d2, d3) -> (d3, d1, d2) : tensor<64x32x40xf32> -> f32
      kernel.yield %b : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.maximumf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %sum = kernel.reduce [64] init(%zero : f32) {
      %b = kernel.read %x (d0, d1, d2, d3) -> (d3, d1, d2) : tensor<64x32x40xf32> -> f32
      %d = arith.subf %b, %max : f32
      %e = math.exp %d : f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %d = arith.subf %a, %max : f32
    %e = math.exp %d : f32
    %i = arith.divf %one, %sum : f32
    %z = arith.mulf %e, %i : f32
    kernel.yield %z : f32
  } : tensor<64x32x40xf32>
  return %y : tensor<64x32x40xf32>
}

// -----

// A loop keeps the sums of rows; three images share a sum, and fewer steps are not worth a kernel.
// CHECK-LABEL: func.func @rows
// CHECK-COUNT-1: kernel.map
// CHECK-NOT: kernel.map
// CHECK-LABEL: func.func @three
// CHECK-COUNT-1: kernel.map
// CHECK-NOT: kernel.map
// CHECK-LABEL: func.func @few_steps
// CHECK-COUNT-1: kernel.map
// CHECK-NOT: kernel.map
func.func @rows(%x: tensor<2048x100xf32>) -> tensor<2048x100xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<2048x100xf32> -> f32
    %sum = kernel.reduce [100] init(%zero : f32) {
      %b = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x100xf32> -> f32
      kernel.yield %b : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %z = arith.divf %a, %sum : f32
    kernel.yield %z : f32
  } : tensor<2048x100xf32>
  return %y : tensor<2048x100xf32>
}
func.func @three(%x: tensor<3x20000xf32>) -> tensor<3x20000xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<3x20000xf32> -> f32
    %sum = kernel.reduce [3] init(%zero : f32) {
      %b = kernel.read %x (d0, d1, d2) -> (d2, d1) : tensor<3x20000xf32> -> f32
      kernel.yield %b : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %z = arith.divf %a, %sum : f32
    kernel.yield %z : f32
  } : tensor<3x20000xf32>
  return %y : tensor<3x20000xf32>
}
func.func @few_steps(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x8xf32> -> f32
    %sum = kernel.reduce [8] init(%zero : f32) {
      %b = kernel.read %x (d0, d1, d2) -> (d2, d1) : tensor<8x8xf32> -> f32
      kernel.yield %b : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %z = arith.divf %a, %sum : f32
    kernel.yield %z : f32
  } : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
