// RUN: kiln-opt %s --torch-inline-subgraphs --split-input-file --verify-diagnostics

// expected-error@+1 {{graph calls itself}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.higher_order "wrap"(%x) args = [@a, #sym.arg<0>] {node = "wrap"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @a(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.higher_order "wrap"(%x) args = [@b, #sym.arg<0>] {node = "wrap"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @b(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.higher_order "wrap"(%x) args = [@a, #sym.arg<0>] {node = "wrap"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
