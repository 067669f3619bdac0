// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file --verify-diagnostics

func.func @integers(%x: tensor<1x2x5x8xi32>) -> tensor<1x2x5x8xi32> {
  // expected-error@+1 {{these dtypes}}
  %0 = torch.call "aten.scaled_dot_product_attention.default"(%x) args = [#sym.arg<0>, #sym.arg<0>, #sym.arg<0>, unit, 0.0, true, unit, false] {node = "sdpa"} : (tensor<1x2x5x8xi32>) -> tensor<1x2x5x8xi32>
  return %0 : tensor<1x2x5x8xi32>
}

// -----

// A result of another dtype than the operands.
func.func @another_result(%x: tensor<1x2x5x8xbf16>) -> tensor<1x2x5x8xi8> {
  // expected-error@+1 {{these dtypes}}
  %0 = torch.call "aten.scaled_dot_product_attention.default"(%x) args = [#sym.arg<0>, #sym.arg<0>, #sym.arg<0>, unit, 0.0, true, unit, false] {node = "sdpa"} : (tensor<1x2x5x8xbf16>) -> tensor<1x2x5x8xi8>
  return %0 : tensor<1x2x5x8xi8>
}

// -----

func.func @logarithms(%x: tensor<1x2x5x8xf32>) -> tensor<1x2x5xf32> {
  // expected-error@+1 {{a result that only training uses}}
  %0:2 = torch.call "aten._scaled_dot_product_flash_attention_for_cpu.default"(%x) args = [#sym.arg<0>, #sym.arg<0>, #sym.arg<0>, 0.0, true, unit, unit] {node = "flash"} : (tensor<1x2x5x8xf32>) -> (tensor<1x2x5x8xf32>, tensor<1x2x5xf32>)
  return %0#1 : tensor<1x2x5xf32>
}
