// RUN: kiln-opt %s --torch-lower-auto-functionalized --split-input-file --verify-diagnostics

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{lib.op.default: it writes two tensors that share memory}}
  %a:2 = torch.higher_order "auto_functionalized_v2"(%x) args = [#torch.operator<"lib.op.default">, 0, 0, [#sym.arg<0>]]
      {names = ["", "_x_base_index", "_y_base_index", "_all_bases"], node = "a"} : (tensor<4xf32>) -> (none, tensor<4xf32>)
  return %a#1 : tensor<4xf32>
}

// -----

// Rows 0 and 1 beside columns 0 and 1.
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error@+1 {{lib.op.default: it writes two tensors that share memory}}
  %a:2 = torch.higher_order "auto_functionalized_v2"(%x) args = [#torch.operator<"lib.op.default">, 0, [3], [1], 0, 0, [2], [3], 1, [#sym.arg<0>]]
      {names = ["", "_x_base_index", "_x_size", "_x_stride", "_x_storage_offset", "_y_base_index", "_y_size", "_y_stride", "_y_storage_offset", "_all_bases"], node = "a"} : (tensor<2x3xf32>) -> (none, tensor<2x3xf32>)
  return %a#1 : tensor<2x3xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{lib.op.default: a base that it does not have}}
  %a:2 = torch.higher_order "auto_functionalized_v2"(%x) args = [#torch.operator<"lib.op.default">, 1, [#sym.arg<0>]]
      {names = ["", "_x_base_index", "_all_bases"], node = "a"} : (tensor<4xf32>) -> (none, tensor<4xf32>)
  return %a#1 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{lib.op.default: a slice that is not one}}
  %a:2 = torch.higher_order "auto_functionalized_v2"(%x) args = [#torch.operator<"lib.op.default">, 0, 1, 0, 2, [#sym.arg<0>]]
      {names = ["", "_x_base_index", "_x_slice_dim", "_x_slice_start", "_x_slice_end", "_all_bases"], node = "a"} : (tensor<4xf32>) -> (none, tensor<4xf32>)
  return %a#1 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{lib.op.default: a list of unknown length}}
  %a:2 = torch.higher_order "auto_functionalized_v2"(%x) args = [#torch.operator<"lib.op.default">, 77, 0, [#sym.arg<0>]]
      {names = ["", "_xs_length", "_xs_0_base_index", "_all_bases"], node = "a"} : (tensor<4xf32>) -> (none, tensor<4xf32>)
  return %a#1 : tensor<4xf32>
}
