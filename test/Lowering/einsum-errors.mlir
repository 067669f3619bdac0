// RUN: kiln-opt %s --torch-lower-to-kernel --verify-diagnostics --split-input-file

// The second operand has a dim more than is left to it.
func.func @ranks(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error@+1 {{cannot compile aten._trilinear.default: dims that do not fit the operands}}
  %0 = torch.call "aten._trilinear.default"(%x) args = [#sym.arg<0>, #sym.arg<0>, #sym.arg<0>, [1], [0, 1], [2], [1], 1] {node = "trilinear"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

func.func @sum(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error@+1 {{cannot compile aten._trilinear.default: dims that do not fit the operands}}
  %0 = torch.call "aten._trilinear.default"(%x) args = [#sym.arg<0>, #sym.arg<0>, #sym.arg<0>, [], [], [], [2], 1] {node = "trilinear"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

func.func @dtypes(%x: tensor<2x3xf32>, %y: tensor<2x3xf64>) -> tensor<2x3xf32> {
  // expected-error@+1 {{cannot compile aten._trilinear.default: these dtypes or ranks}}
  %0 = torch.call "aten._trilinear.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<0>, #sym.arg<1>, [], [], [], [], 1] {node = "trilinear"} : (tensor<2x3xf32>, tensor<2x3xf64>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
