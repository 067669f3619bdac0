// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Each window adds to its elements.
// CHECK-LABEL: func.func @avg(
// CHECK: kernel.scatter batch [1, 2] targets [4, 4] places [2, 2, 2, 2]
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d4, d5)
// CHECK: kernel.index (d0, d1, d2, d3, d4, d5, d6, d7) -> (2*d4 + d6)
// CHECK: kernel.index (d0, d1, d2, d3, d4, d5, d6, d7) -> (2*d5 + d7)
// CHECK: arith.addf %arg2, %arg3 : f32
func.func @avg(%x: tensor<1x2x2x2xf32>, %y: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %0 = torch.call "aten.avg_pool2d_backward.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, [2, 2], [2, 2], [0, 0], false, true, unit] {node = "avg"} : (tensor<1x2x2x2xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  return %0 : tensor<1x2x4x4xf32>
}
