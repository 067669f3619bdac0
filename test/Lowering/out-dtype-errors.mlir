// RUN: kiln-opt %s --torch-lower-to-kernel --verify-diagnostics --split-input-file

func.func @no_operator(%x: tensor<4xi8>) -> tensor<4xi32> {
  // expected-error@+1 {{out_dtype: arguments that it does not take}}
  %0 = torch.higher_order "out_dtype"(%x) args = [#sym.dtype<i32>, #sym.arg<0>, #sym.arg<0>] {node = "out_dtype"} : (tensor<4xi8>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @too_many(%x: tensor<4xi8>) -> tensor<4xi32> {
  // expected-error@+1 {{out_dtype: arguments that aten.mul.Tensor does not take}}
  %0 = torch.higher_order "out_dtype"(%x) args = [#torch.operator<"aten.mul.Tensor">, #sym.dtype<i32>, #sym.arg<0>, #sym.arg<0>, 1]
      {node = "out_dtype"} : (tensor<4xi8>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @nothing_in_common(%x: tensor<4xf8E5M2>) -> tensor<4xf32> {
  // expected-error@+1 {{out_dtype: operands whose types have none in common}}
  %0 = torch.higher_order "out_dtype"(%x) args = [#torch.operator<"aten.mul.Tensor">, #sym.dtype<f32>, #sym.arg<0>, #sym.arg<0>]
      {node = "out_dtype"} : (tensor<4xf8E5M2>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
