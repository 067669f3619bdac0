// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file --verify-diagnostics

// Nothing is taken for granted of an operator that has no schema.
func.func @axis(%x: tensor<2x3xi8>, %s: tensor<3xf32>) -> tensor<2x3xf32> {
  // expected-error @+1 {{these parameters or dtypes}}
  %0 = torch.call "quantized_decomposed.dequantize_per_channel.default"(%x, %s) args = [#sym.arg<0>, #sym.arg<1>, unit, 2, -128, 127, #sym.dtype<i8>] {node = "d"} : (tensor<2x3xi8>, tensor<3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

func.func @missing(%x: tensor<2xf32>) -> tensor<2xi8> {
  // expected-error @+1 {{these parameters or dtypes}}
  %0 = torch.call "quantized_decomposed.quantize_per_tensor.default"(%x) args = [#sym.arg<0>, "scale"] {node = "q"} : (tensor<2xf32>) -> tensor<2xi8>
  return %0 : tensor<2xi8>
}
