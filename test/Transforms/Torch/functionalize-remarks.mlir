// Says of calls that may copy or be views which of them they are.
// RUN: kiln-opt %s --torch-functionalize --remarks-filter=torch-functionalize --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s

// CHECK: Reason="by the strides that export recorded", Remark="aten.reshape.default is a view of its argument"
// CHECK: Reason="by the strides that export recorded", Remark="aten.reshape.default copies its argument"
// CHECK-NOT: Remark
func.func @sharing(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<6xf32>, tensor<6xf32>, tensor<2x3xf32>) {
  %0 = torch.call "aten.reshape.default"(%x) args = [#sym.arg<0>, [6]] {node = "reshape", torch.strides = #sym.shape<[3, 1]>} : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = torch.call "aten.reshape.default"(%y) args = [#sym.arg<0>, [6]] {node = "reshape_1", torch.strides = #sym.shape<[1, 2]>} : (tensor<2x3xf32>) -> tensor<6xf32>
  %2 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "relu"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1, %2 : tensor<6xf32>, tensor<6xf32>, tensor<2x3xf32>
}
