// RUN: kiln-opt %s --torch-lower-to-kernel --verify-diagnostics --split-input-file

// Sums in f32 are not given in half precision where PyTorch has no such product.
func.func @out_dtype(%x: tensor<4x8xf32>, %y: tensor<8x5xf32>) -> tensor<4x5xf16> {
  // expected-error@+1 {{cannot compile aten.mm.dtype: these dtypes}}
  %0 = torch.call "aten.mm.dtype"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, #sym.dtype<f16>] {node = "mm"} : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf16>
  return %0 : tensor<4x5xf16>
}
