// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Two sums for each row, and what they take from the gradient.
// CHECK-LABEL: func.func @layer_norm(
// CHECK: kernel.reduce [4] init
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: kernel.reduce [4] init
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @layer_norm(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>, %z: tensor<3x1xf32>, %u: tensor<3x1xf32>, %v: tensor<4xf32>) -> tensor<3x4xf32> {
  %0:3 = torch.call "aten.native_layer_norm_backward.default"(%x, %y, %z, %u, %v) args = [#sym.arg<0>, #sym.arg<1>, [4], #sym.arg<2>, #sym.arg<3>, #sym.arg<4>, unit, [true, false, false]] {node = "layer_norm"} : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x1xf32>, tensor<3x1xf32>, tensor<4xf32>) -> (tensor<3x4xf32>, none, none)
  return %0#0 : tensor<3x4xf32>
}
