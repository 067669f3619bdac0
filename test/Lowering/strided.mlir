// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Strides become an index into memory.
// CHECK-LABEL: func.func @as_strided(
// CHECK: kernel.read %arg0 (d0, d1) -> (d0 + 3*d1)
func.func @as_strided(%x: tensor<12xf32>) -> tensor<3x4xf32> {
  %0 = torch.call "aten.as_strided.default"(%x) args = [#sym.arg<0>, [3, 4], [1, 3], 0] {node = "as_strided"} : (tensor<12xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
