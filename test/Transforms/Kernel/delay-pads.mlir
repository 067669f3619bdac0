// RUN: kiln-opt %s --kernel-delay-pads --canonicalize --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --kernel-delay-pads --run-reference --split-input-file -o /dev/null

// Bytes are made of the image, and padded by what is made of the padding.
// CHECK-LABEL: func.func @quantized
// CHECK: %[[BYTES:.*]] = kernel.map {
// CHECK-NOT: kernel.inside
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1) : tensor<1x8xf32> -> f32
// CHECK: arith.fptosi
// CHECK: } : tensor<1x8xui8>
// CHECK: kernel.map {
// CHECK-DAG: arith.constant 3 : i8
// CHECK-DAG: kernel.inside (d0, d1) -> (d1 - 2) bounds [8]
// CHECK: kernel.read %[[BYTES]] (d0, d1) -> (d0, d1 - 2) if %{{.*}} else(%{{.*}} : i8)
// CHECK: } : tensor<1x12xui8>
func.func @quantized(%x: tensor<1x8xf32>) -> tensor<1x12xui8> {
  %p = kernel.map {
    %half = arith.constant 1.5 : f32
    %m = kernel.inside (d0, d1) -> (d1 - 2) bounds [8]
    %0 = kernel.read %x (d0, d1) -> (d0, d1 - 2) if %m else(%half : f32) : tensor<1x8xf32> -> f32
    kernel.yield %0 : f32
  } : tensor<1x12xf32>
  %q = kernel.map {
    %two = arith.constant 2.0 : f32
    %0 = kernel.read %p (d0, d1) -> (0, d1) : tensor<1x12xf32> -> f32
    %1 = arith.mulf %0, %two : f32
    %2 = arith.fptosi %1 : f32 to i32
    %3 = arith.trunci %2 : i32 to i8
    kernel.yield %3 : i8
  } : tensor<1x12xui8>
  return %q : tensor<1x12xui8>
}

// -----

// Others read the padded floats, too.
// CHECK-LABEL: func.func @shared
// CHECK: } : tensor<12xf32>
// CHECK: } : tensor<12xui8>
func.func @shared(%x: tensor<8xf32>) -> (tensor<12xf32>, tensor<12xui8>) {
  %p = kernel.map {
    %zero = arith.constant 0.0 : f32
    %m = kernel.inside (d0) -> (d0 - 2) bounds [8]
    %0 = kernel.read %x (d0) -> (d0 - 2) if %m else(%zero : f32) : tensor<8xf32> -> f32
    kernel.yield %0 : f32
  } : tensor<12xf32>
  %q = kernel.map {
    %0 = kernel.read %p (d0) -> (d0) : tensor<12xf32> -> f32
    %1 = arith.fptosi %0 : f32 to i8
    kernel.yield %1 : i8
  } : tensor<12xui8>
  return %p, %q : tensor<12xf32>, tensor<12xui8>
}

// -----

// What is made of an element depends on its place.
// CHECK-LABEL: func.func @place
// CHECK: } : tensor<12xf32>
// CHECK: kernel.inside (d0) -> (d0) bounds [4]
// CHECK: } : tensor<12xui8>
func.func @place(%x: tensor<8xf32>) -> tensor<12xui8> {
  %p = kernel.map {
    %zero = arith.constant 0.0 : f32
    %m = kernel.inside (d0) -> (d0 - 2) bounds [8]
    %0 = kernel.read %x (d0) -> (d0 - 2) if %m else(%zero : f32) : tensor<8xf32> -> f32
    kernel.yield %0 : f32
  } : tensor<12xf32>
  %q = kernel.map {
    %one = arith.constant 1 : i8
    %first = kernel.inside (d0) -> (d0) bounds [4]
    %0 = kernel.read %p (d0) -> (d0) : tensor<12xf32> -> f32
    %1 = arith.fptosi %0 : f32 to i8
    %2 = arith.select %first, %one, %1 : i8
    kernel.yield %2 : i8
  } : tensor<12xui8>
  return %q : tensor<12xui8>
}
