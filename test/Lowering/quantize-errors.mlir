// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file --verify-diagnostics

func.func @axis(%x: tensor<2x3xi8>, %s: tensor<3xf32>) -> tensor<2x3xf32> {
  // expected-error @+1 {{an axis or a size of groups that the tensor does not have}}
  %0 = torch.call "quantized_decomposed.dequantize_per_channel.default"(%x, %s) args = [#sym.arg<0>, #sym.arg<1>, unit, 2, -128, 127, #sym.dtype<i8>, unit] {node = "d"} : (tensor<2x3xi8>, tensor<3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

func.func @type(%x: tensor<2xf32>) -> tensor<2xf64> {
  // expected-error @+1 {{these parameters or dtypes}}
  %0 = torch.call "quantized_decomposed.quantize_per_tensor.default"(%x) args = [#sym.arg<0>, 1.0, 0, 0, 1, #sym.dtype<f64>] {node = "q"} : (tensor<2xf32>) -> tensor<2xf64>
  return %0 : tensor<2xf64>
}

// -----

func.func @zero_scale(%x: tensor<2xf32>) -> tensor<2xi8> {
  // expected-error @+1 {{a scale that is zero or not finite}}
  %0 = torch.call "quantized_decomposed.quantize_per_tensor.default"(%x) args = [#sym.arg<0>, 0.0, 0, 0, 1, #sym.dtype<i8>] {node = "q"} : (tensor<2xf32>) -> tensor<2xi8>
  return %0 : tensor<2xi8>
}

// -----

func.func @scales(%x: tensor<2x8xi8>, %s: tensor<3xf32>) -> tensor<2x8xf32> {
  // expected-error @+1 {{another number of scales or zero points than of blocks}}
  %0 = torch.call "torchao.dequantize_affine.default"(%x, %s) args = [#sym.arg<0>, [1, 4], #sym.arg<1>, unit, #sym.dtype<i8>, unit, unit, #sym.dtype<f32>] {node = "d"} : (tensor<2x8xi8>, tensor<3xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

func.func @blocks(%x: tensor<2x8xi8>, %s: tensor<4xf32>) -> tensor<2x8xf32> {
  // expected-error @+1 {{a tensor that is no whole number of blocks}}
  %0 = torch.call "torchao.dequantize_affine.default"(%x, %s) args = [#sym.arg<0>, [1, 3], #sym.arg<1>, unit, #sym.dtype<i8>, unit, unit, #sym.dtype<f32>] {node = "d"} : (tensor<2x8xi8>, tensor<4xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

func.func @none(%x: tensor<2x8xi8>, %s: tensor<4xf32>) -> tensor<2x8xf32> {
  // expected-error @+1 {{blocks whose size is neither known nor that of the tensor}}
  %0 = torch.call "torchao.dequantize_affine.default"(%x, %s) args = [#sym.arg<0>, [1, 0], #sym.arg<1>, unit, #sym.dtype<i8>, unit, unit, #sym.dtype<f32>] {node = "d"} : (tensor<2x8xi8>, tensor<4xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

func.func @zero(%x: tensor<2x8xf32>, %s: tensor<2xf32>) -> tensor<2x8xi8> {
  // expected-error @+1 {{no zero points, with which eager mode fails, too}}
  %0 = torch.call "torchao.quantize_affine.default"(%x, %s) args = [#sym.arg<0>, [1, 8], #sym.arg<1>, unit, #sym.dtype<i8>, unit, unit] {node = "q"} : (tensor<2x8xf32>, tensor<2xf32>) -> tensor<2x8xi8>
  return %0 : tensor<2x8xi8>
}

// -----

func.func @mapping(%x: tensor<2x8xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  // expected-error @+1 {{no input, or another mapping than to a range or a symmetric one}}
  %0:2 = torch.call "torchao.choose_qparams_affine.default"(%x) args = [#sym.arg<0>, "LOG", [1, 8], #sym.dtype<i8>, unit, unit, unit, unit, unit, false] {node = "c"} : (tensor<2x8xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}

// -----

func.func @rows(%x: tensor<2x8xf32>) -> (tensor<2x1xf64>, tensor<2x1xi64>) {
  // expected-error @+1 {{a tensor without rows, or a dtype other than int8}}
  %0:2 = torch.call "quantized_decomposed.choose_qparams_per_token.default"(%x) args = [#sym.arg<0>, #sym.dtype<ui8>] {node = "c"} : (tensor<2x8xf32>) -> (tensor<2x1xf64>, tensor<2x1xi64>)
  return %0#0, %0#1 : tensor<2x1xf64>, tensor<2x1xi64>
}
