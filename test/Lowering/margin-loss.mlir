// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// The target itself is left out of the sum.
// CHECK-LABEL: func.func @multi_margin(
// CHECK: kernel.read %arg1 (d0) -> (d0)
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1) values(%{{.*}})
// CHECK: kernel.reduce [5] init
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: kernel.index (d0, d1) -> (d1)
// CHECK: arith.cmpi eq, %{{.*}}, %{{.*}} : i64
// CHECK: kernel.reduce [3] init
// CHECK: kernel.read %{{.*}} (d0) -> (d0)
func.func @multi_margin(%x: tensor<3x5xf32>, %y: tensor<3xi64>) -> tensor<f32> {
  %0 = torch.call "aten.multi_margin_loss.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, 1, 1, unit, 1] {node = "multi_margin"} : (tensor<3x5xf32>, tensor<3xi64>) -> tensor<f32>
  return %0 : tensor<f32>
}
