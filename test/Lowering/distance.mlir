// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Euclidean: squares, one sum, a root.
// CHECK-LABEL: func.func @cdist(
// CHECK: kernel.reduce [4] init
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d0, d2)
// CHECK: kernel.read %arg1 (d0, d1, d2) -> (d1, d2)
// CHECK: math.absf %{{.*}} : f32
// CHECK: math.sqrt %{{.*}} : f32
func.func @cdist(%x: tensor<3x4xf32>, %y: tensor<5x4xf32>) -> tensor<3x5xf32> {
  %0 = torch.call "aten._cdist_forward.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, 2.0, unit] {node = "cdist"} : (tensor<3x4xf32>, tensor<5x4xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
