// RUN: kiln-opt %s --torch-inline-subgraphs | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
// CHECK-NEXT: %[[Y:.*]] = torch.call "aten.cos.default"(%[[X]])
// CHECK-NEXT: return %[[Y]]
// CHECK-NOT: func.func private
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.higher_order "wrap_with_set_grad_enabled"(%x) args = [false, @submod_1, #torch.arg<0>]
      {node = "wrap"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @submod_1(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.call "aten.cos.default"(%x) args = [#torch.arg<0>] {node = "cos"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
