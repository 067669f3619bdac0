// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Strides become an index into memory.
// CHECK-LABEL: func.func @as_strided(
// CHECK: kernel.read %arg0 (d0, d1) -> (d0 + 3*d1)
func.func @as_strided(%x: tensor<12xf32>) -> tensor<3x4xf32> {
  %0 = torch.call "aten.as_strided.default"(%x) args = [#sym.arg<0>, [3, 4], [1, 3], 0] {node = "as_strided"} : (tensor<12xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// A tensor without elements is all of its memory, whatever its strides.
// CHECK-LABEL: func.func @resize_empty
// CHECK: } : tensor<0xf32>
// CHECK: kernel.inside (d0, d1) -> (2*d0 + d1) bounds [0]
// CHECK: } : tensor<2x2xf32>
func.func @resize_empty(%x: tensor<2x0x1xf32> {torch.strides = #sym.shape<[1, 1, 1]>}) -> tensor<2x2xf32> {
  %0 = torch.call "aten.resize.default"(%x) args = [#sym.arg<0>, [2, 2], unit] {node = "resize"} : (tensor<2x0x1xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
