// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// NaN of either side wins.
// CHECK-LABEL: func.func @maximum(
// CHECK: kernel.read %arg0 (d0) -> (d0)
// CHECK: kernel.read %arg1 (d0) -> (d0)
// CHECK: arith.maximumf %{{.*}}, %{{.*}} : f32
func.func @maximum(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.maximum.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>] {node = "maximum"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Equal infinities are close, others are not.
// CHECK-LABEL: func.func @isclose(
// CHECK: kernel.read %arg0 (d0) -> (d0)
// CHECK: kernel.read %arg1 (d0) -> (d0)
// CHECK: arith.cmpf oeq, %{{.*}}, %{{.*}} : f32
// CHECK: math.absf %{{.*}} : f32
// CHECK: math.absf %{{.*}} : f32
// CHECK: arith.cmpf olt, %{{.*}}, %{{.*}} : f32
// CHECK: arith.cmpf ole, %{{.*}}, %{{.*}} : f32
// CHECK: arith.andi %{{.*}}, %{{.*}} : i1
// CHECK: arith.ori %{{.*}}, %{{.*}} : i1
func.func @isclose(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xi1> {
  %0 = torch.call "aten.isclose.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, 1.0e-05, 1.0e-08, false] {node = "isclose"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}
