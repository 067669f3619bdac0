// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Only the run of dims that changes is linearised.
// CHECK-LABEL: func.func @split_heads
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: kernel.read %[[A0]] (d0, d1, d2, d3) -> (0, d1, 64*d2 + d3)
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d0, d2, d1, d3)
func.func @split_heads(%x: tensor<1x128x768xf32>) -> tensor<1x12x128x64xf32> {
  %0 = torch.call "aten.view.default"(%x) args = [#sym.arg<0>, [1, 128, -1, 64]] {node = "view"} : (tensor<1x128x768xf32>) -> tensor<1x128x12x64xf32>
  %1 = torch.call "aten.transpose.int"(%0) args = [#sym.arg<0>, 1, 2] {node = "transpose"} : (tensor<1x128x12x64xf32>) -> tensor<1x12x128x64xf32>
  return %1 : tensor<1x12x128x64xf32>
}

// -----

// The same with a size that is not known.
// CHECK-LABEL: func.func @symbolic
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: kernel.read %[[A0]] (d0, d1) -> (d0 floordiv 2, 3*(d0 mod 2) + d1)
func.func @symbolic(%x: tensor<?x6xf32, #sym.shape<[s0, 6]>>) -> tensor<?x3xf32, #sym.shape<[2*s0, 3]>> {
  %0 = torch.call "aten.view.default"(%x) args = [#sym.arg<0>, [-1, 3]] {node = "view"} : (tensor<?x6xf32, #sym.shape<[s0, 6]>>) -> tensor<?x3xf32, #sym.shape<[2*s0, 3]>>
  return %0 : tensor<?x3xf32, #sym.shape<[2*s0, 3]>>
}

// -----

// Bounds count from the end and are clamped.
// CHECK-LABEL: func.func @slice
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: kernel.read %[[A0]] (d0, d1) -> (d0, 3*d1 + 3)
func.func @slice(%x: tensor<4x10xf32>) -> tensor<4x3xf32> {
  %0 = torch.call "aten.slice.Tensor"(%x) args = [#sym.arg<0>, 1, -7, 9223372036854775807, 3] {node = "slice"} : (tensor<4x10xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// Parts are as long as declared.
// CHECK-LABEL: func.func @split
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: kernel.read %[[A0]] (d0, d1) -> (d0, d1)
// CHECK: kernel.read %[[A0]] (d0, d1) -> (d0, d1 + 3)
func.func @split(%x: tensor<2x5xf32>) -> (tensor<2x3xf32>, tensor<2x2xf32>) {
  %0:2 = torch.call "aten.split.Tensor"(%x) args = [#sym.arg<0>, 3, 1] {node = "split"} : (tensor<2x5xf32>) -> (tensor<2x3xf32>, tensor<2x2xf32>)
  return %0#0, %0#1 : tensor<2x3xf32>, tensor<2x2xf32>
}

// -----

// Dims of size 1 repeat without a mod.
// CHECK-LABEL: func.func @repeat
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: kernel.read %[[A0]] (d0, d1, d2) -> (d1 mod 2, 0)
func.func @repeat(%x: tensor<2x1xf32>) -> tensor<3x4x5xf32> {
  %0 = torch.call "aten.repeat.default"(%x) args = [#sym.arg<0>, [3, 2, 5]] {node = "repeat"} : (tensor<2x1xf32>) -> tensor<3x4x5xf32>
  return %0 : tensor<3x4x5xf32>
}

// -----

// Nothing is left of calls that only check or rename.
// CHECK-LABEL: func.func @no_op
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: return %[[A0]]
func.func @no_op(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = torch.call "aten.alias.default"(%x) args = [#sym.arg<0>] {node = "alias"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  torch.call "aten._assert_tensor_metadata.default"(%0) args = [#sym.arg<0>, unit, unit, unit, unit, unit] {node = "assert"} : (tensor<2x3xf32>) -> ()
  return %0 : tensor<2x3xf32>
}

// -----

// Whether a dim of unknown size has the element turns out when the model runs.
// CHECK-LABEL: func.func @select
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: kernel.assert s0 - 1, "index 0 is not inside dim 1 of size s0 (node 'first')"
// CHECK: kernel.read %[[A0]] (d0) -> (d0, 0)
// CHECK: kernel.assert s0 - 3, "index -3 is not inside dim 1 of size s0 (node 'third')"
// CHECK: kernel.read %[[A0]] (d0) -> (d0, s0 - 3)
module attributes {sym.symbols = {s0 = {min = 0 : i64}}} {
  func.func @select(%x: tensor<2x?xf32, #sym.shape<[2, s0]>>) -> (tensor<2xf32>, tensor<2xf32>) {
    %0 = torch.call "aten.select.int"(%x) args = [#sym.arg<0>, 1, 0] {node = "first"} : (tensor<2x?xf32, #sym.shape<[2, s0]>>) -> tensor<2xf32> loc("first")
    %1 = torch.call "aten.select.int"(%x) args = [#sym.arg<0>, 1, -3] {node = "third"} : (tensor<2x?xf32, #sym.shape<[2, s0]>>) -> tensor<2xf32> loc("third")
    return %0, %1 : tensor<2xf32>, tensor<2xf32>
  }
}

// -----

// Export has decided which dims are of size 1. Of all dims, the constant ones are known.
// CHECK-LABEL: func.func @squeeze
// CHECK-NEXT: kernel.assert max(s0 - 1, 1 - s0) - 1, "export has left a dim that is of size 1 (node 'left')"
// CHECK-NOT: kernel.assert
// CHECK: return
module attributes {sym.symbols = {s0 = {min = 0 : i64}, s1 = {min = 2 : i64}}} {
  func.func @squeeze(%x: tensor<?x1x?xf32, #sym.shape<[s0, 1, s1]>>) -> (tensor<?x?xf32, #sym.shape<[s0, s1]>>, tensor<?x?xf32, #sym.shape<[s0, s1]>>) {
    %0 = torch.call "aten.squeeze.default"(%x) args = [#sym.arg<0>] {node = "left"} : (tensor<?x1x?xf32, #sym.shape<[s0, 1, s1]>>) -> tensor<?x?xf32, #sym.shape<[s0, s1]>> loc("left")
    %1 = torch.call "aten.squeeze.dims"(%x) args = [#sym.arg<0>, [1, 2]] {node = "known"} : (tensor<?x1x?xf32, #sym.shape<[s0, 1, s1]>>) -> tensor<?x?xf32, #sym.shape<[s0, s1]>> loc("known")
    return %0, %1 : tensor<?x?xf32, #sym.shape<[s0, s1]>>, tensor<?x?xf32, #sym.shape<[s0, s1]>>
  }
}
