// RUN: kiln-opt %s --torch-functionalize --canonicalize --split-input-file | FileCheck %s

// By the recorded strides, reshape is a view: the input is written, and its strides are checked.
// CHECK-LABEL: func.func @view_by_strides
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32> {torch.check_strides, torch.name = "x"}, %[[Y:.*]]: tensor<2x3xf32> {torch.name = "y"}
// CHECK: %[[V:.*]] = torch.call "aten.reshape.default"(%[[X]])
// CHECK: %[[W:.*]] = torch.call "aten.mul.Scalar"(%[[V]])
// CHECK: %[[B:.*]] = torch.call "aten.view.default"(%[[W]]) args = [#sym.arg<0>, [2, 3]]
// CHECK: return %[[W]], %[[B]]
func.func @view_by_strides(%x: tensor<2x3xf32> {torch.name = "x"}, %y: tensor<2x3xf32> {torch.name = "y"}) -> tensor<6xf32> {
  %0 = torch.call "aten.reshape.default"(%x) args = [#sym.arg<0>, [6]] {node = "reshape", torch.strides = #sym.shape<[3, 1]>} : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = torch.call "aten.mul_.Scalar"(%0) args = [#sym.arg<0>, 2] {node = "mul_"} : (tensor<6xf32>) -> tensor<6xf32>
  return %1 : tensor<6xf32>
}

// -----

// By these it is a copy. Strides that decide whether a result which nobody sees is written are not checked.
// CHECK-LABEL: func.func @copy_by_strides
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32> {torch.check_strides, torch.name = "x"}, %[[Y:.*]]: tensor<2x3xf32> {torch.name = "y"})
// CHECK: %[[W:.*]] = torch.call "aten.mul.Scalar"
// CHECK: %[[Z:.*]] = torch.call "aten.mul.Scalar"
// CHECK: return %[[W]], %[[Z]]
func.func @copy_by_strides(%x: tensor<2x3xf32> {torch.name = "x"}, %y: tensor<2x3xf32> {torch.name = "y"}) -> (tensor<6xf32>, tensor<6xf32>) {
  %0 = torch.call "aten.reshape.default"(%x) args = [#sym.arg<0>, [6]] {node = "reshape", torch.strides = #sym.shape<[1, 2]>} : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = torch.call "aten.mul_.Scalar"(%0) args = [#sym.arg<0>, 2] {node = "mul_"} : (tensor<6xf32>) -> tensor<6xf32>
  %2 = torch.call "aten.relu.default"(%y) args = [#sym.arg<0>] {node = "relu"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = torch.call "aten.reshape.default"(%2) args = [#sym.arg<0>, [6]] {node = "reshape_1", torch.strides = #sym.shape<[1, 2]>} : (tensor<2x3xf32>) -> tensor<6xf32>
  %4 = torch.call "aten.mul_.Scalar"(%3) args = [#sym.arg<0>, 2] {node = "mul__1"} : (tensor<6xf32>) -> tensor<6xf32>
  return %1, %4 : tensor<6xf32>, tensor<6xf32>
}

// -----

// An operator that sees memory, in a nested graph, of a tensor that lies as an input does; a product does not.
// CHECK-LABEL: func.func @nested
// CHECK-SAME: %[[X:.*]]: tensor<2x2xf32> {torch.check_strides}, %[[Y:.*]]: tensor<2x2xf32>)
// CHECK: func.func private @graph(%{{.*}}: tensor<2x2xf32> {torch.check_strides}, %{{.*}}: tensor<2x2xf32>)
func.func @nested(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<2xf32> {
  %0 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "relu"} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = torch.call "aten.mm.default"(%y, %y) args = [#sym.arg<0>, #sym.arg<1>] {node = "mm"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = torch.higher_order "invoke_subgraph"(%0, %1) args = [@graph, "id", #sym.arg<0>, #sym.arg<1>] {node = "call"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
func.func private @graph(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<2xf32> {
  %0 = torch.call "aten.as_strided.default"(%x) args = [#sym.arg<0>, [2], [2], 1] {node = "as_strided", torch.strides = #sym.shape<[2, 1]>, torch.storage_offset = #sym.expr<0>} : (tensor<2x2xf32>) -> tensor<2xf32>
  %1 = torch.call "aten.neg.default"(%y) args = [#sym.arg<0>] {node = "neg"} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2xf32>
}
