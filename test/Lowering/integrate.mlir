// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// The sum, less half of both ends.
// CHECK-LABEL: func.func @trapezoid(
// CHECK: kernel.reduce [4] init
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: kernel.read %arg0 (d0) -> (d0, 0)
// CHECK: kernel.read %arg0 (d0) -> (d0, 3)
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
func.func @trapezoid(%x: tensor<3x4xf32>) -> tensor<3xf32> {
  %0 = torch.call "aten.trapezoid.dx"(%x) args = [#sym.arg<0>, 0.5, -1] {node = "trapezoid"} : (tensor<3x4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
