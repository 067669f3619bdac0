// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Indices are places in the flattened image.
// CHECK-LABEL: func.func @unpool(
// CHECK: kernel.scatter batch [1, 2] targets [16] places [2, 2]
// CHECK: kernel.read %arg1 (d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (0, d1, 4*d2 + d3)
func.func @unpool(%x: tensor<1x2x2x2xf32>, %y: tensor<1x2x2x2xi64>) -> tensor<1x2x4x4xf32> {
  %0 = torch.call "aten.max_unpool2d.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, [4, 4]] {node = "unpool"} : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xi64>) -> tensor<1x2x4x4xf32>
  return %0 : tensor<1x2x4x4xf32>
}
