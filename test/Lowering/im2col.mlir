// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Windows are indices.
// CHECK-LABEL: func.func @im2col(
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5) -> (d0, d1, d2 + 2*d4, d3 + 2*d5)
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (0, d1 floordiv 4, (d1 floordiv 2) mod 2, d1 mod 2, d2 floordiv 2, d2 mod 2)
func.func @im2col(%x: tensor<1x2x4x4xf32>) -> tensor<1x8x4xf32> {
  %0 = torch.call "aten.im2col.default"(%x) args = [#sym.arg<0>, [2, 2], [1, 1], [0, 0], [2, 2]] {node = "im2col"} : (tensor<1x2x4x4xf32>) -> tensor<1x8x4xf32>
  return %0 : tensor<1x8x4xf32>
}
