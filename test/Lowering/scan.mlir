// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Sums of floats are carried in double precision.
// CHECK-LABEL: func.func @cumsum(
// CHECK: kernel.scan dim 1 associative
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: arith.addf %arg1, %arg2 : f64
// CHECK: arith.truncf %arg1 : f64 to f32
func.func @cumsum(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = torch.call "aten.cumsum.default"(%x) args = [#sym.arg<0>, 1, unit] {node = "cumsum"} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// The later of equal values counts, and NaN stays.
// CHECK-LABEL: func.func @cummax(
// CHECK: kernel.scan dim 1 associative
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: kernel.index (d0, d1) -> (d1)
// CHECK: arith.cmpf ole, %arg1, %arg3 : f32
// CHECK: arith.cmpf une, %arg3, %arg3 : f32
// CHECK: arith.cmpf une, %arg1, %arg1 : f32
func.func @cummax(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>) {
  %0:2 = torch.call "aten.cummax.default"(%x) args = [#sym.arg<0>, 1] {node = "cummax"} : (tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>)
  return %0#0, %0#1 : tensor<3x4xf32>, tensor<3x4xi64>
}
