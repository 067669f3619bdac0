// RUN: kiln-opt %s --torch-lower-auto-functionalized --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<4x3xf32>, %[[Y:.*]]: tensor<3xf32>
func.func @main(%x: tensor<4x3xf32>, %y: tensor<3xf32>) -> (tensor<4x3xf32>, tensor<2x3xf32>, tensor<4x3xf32>, tensor<3xf32>) {
  // A whole tensor, and one that nothing is written to.
  // CHECK: %[[A:.*]]:2 = torch.call "lib.writes.default"(%[[Y]], %[[X]]) args = [3, [#sym.arg<0>], #sym.arg<1>, unit]
  // CHECK-SAME: names = ["k", "others", "x", "none"], node = "a", updates = array<i64: 1>
  %a:3 = torch.higher_order "auto_functionalized_v2"(%x, %y) args = [#torch.operator<"lib.writes.default">, 3, [#sym.arg<1>], 0, true, unit, [#sym.arg<0>, #sym.arg<1>]]
      {names = ["", "k", "others", "_x_base_index", "_x_alias", "_none_base_index", "_all_bases"], node = "a"} : (tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>)
  // A slice.
  // CHECK: %[[S:.*]] = torch.call "aten.slice.Tensor"(%[[A]]#1) args = [#sym.arg<0>, 0, 1, 3, 1]
  // CHECK: %[[B:.*]]:2 = torch.call "lib.writes.default"(%[[S]]) {{.*}} -> (tensor<2x3xf32>, tensor<2x3xf32>)
  // CHECK: %[[C:.*]] = torch.call "aten.slice_scatter.default"(%[[A]]#1, %[[B]]#1) args = [#sym.arg<0>, #sym.arg<1>, 0, 1, 3, 1]
  %b:2 = torch.higher_order "auto_functionalized_v2"(%a#1) args = [#torch.operator<"lib.writes.default">, 0, 0, 1, 3, [#sym.arg<0>]]
      {names = ["", "_x_base_index", "_x_slice_dim", "_x_slice_start", "_x_slice_end", "_all_bases"], node = "b"} : (tensor<4x3xf32>) -> (tensor<2x3xf32>, tensor<4x3xf32>)
  // A list, one of them by strides; nothing is returned.
  // CHECK: %[[V:.*]] = torch.call "aten.as_strided.default"(%[[C]]) args = [#sym.arg<0>, [3], [1], 6] {node = "c", torch.storage_offset = #sym.expr<0>, torch.strides = #sym.shape<[3, 1]>}
  // CHECK: %[[D:.*]]:3 = torch.call "lib.list.default"(%[[V]], %[[Y]]) args = {{\[}}[#sym.arg<0>, #sym.arg<1>]{{\]}}
  // CHECK-SAME: updates = array<i64: 0, 1>
  // CHECK: %[[E:.*]] = torch.call "aten.as_strided_scatter.default"(%[[C]], %[[D]]#1) args = [#sym.arg<0>, #sym.arg<1>, [3], [1], 6]
  // CHECK: return %[[A]]#0, %[[B]]#0, %[[E]], %[[D]]#2
  %c:3 = torch.higher_order "auto_functionalized_v2"(%b#1, %a#2) args = [#torch.operator<"lib.list.default">, 2, 0, [3], [1], 6, 1, [#sym.arg<0>, #sym.arg<1>]]
      {names = ["", "_xs_length", "_xs_0_base_index", "_xs_0_size", "_xs_0_stride", "_xs_0_storage_offset", "_xs_1_base_index", "_all_bases"], node = "c",
       torch.strides = [#sym.shape<[3, 1]>, #sym.shape<[1]>], torch.storage_offset = [#sym.expr<0>, #sym.expr<0>]} : (tensor<4x3xf32>, tensor<3xf32>) -> (none, tensor<4x3xf32>, tensor<3xf32>)
  return %a#0, %b#0, %c#1, %c#2 : tensor<4x3xf32>, tensor<2x3xf32>, tensor<4x3xf32>, tensor<3xf32>
}

// -----

// Two parts of one tensor that have no element in common: halves of unknown length, columns, slices.
// CHECK-LABEL: func.func @parts
// CHECK-SAME: (%[[X:.*]]: tensor<2x?xf32
// CHECK: %[[A0:.*]] = torch.call "aten.as_strided.default"(%[[X]])
// CHECK: %[[A1:.*]] = torch.call "aten.as_strided.default"(%[[X]])
// CHECK: %[[A:.*]]:3 = torch.call "lib.op.default"(%[[A0]], %[[A1]]) {{.*}} updates = array<i64: 0, 1>
// CHECK: %[[B:.*]] = torch.call "aten.as_strided_scatter.default"(%[[X]], %[[A]]#1)
// CHECK: %[[C:.*]] = torch.call "aten.as_strided_scatter.default"(%[[B]], %[[A]]#2)
// CHECK: %[[D:.*]]:3 = torch.call "lib.op.default"({{.*}}updates = array<i64: 0, 1>
// CHECK: %[[E:.*]]:3 = torch.call "lib.op.default"({{.*}}updates = array<i64: 0, 1>
// CHECK: return %[[C]]
func.func @parts(%x: tensor<2x?xf32, #sym.shape<[2, s0]>>, %y: tensor<4x2x3xf32>) -> (tensor<2x?xf32, #sym.shape<[2, s0]>>, tensor<4x2x3xf32>, tensor<4x2x3xf32>) {
  %a:2 = torch.higher_order "auto_functionalized_v2"(%x) args = [#torch.operator<"lib.op.default">, 0, [#sym.expr<s0>], [1], 0, 0, [#sym.expr<s0>], [1], #sym.expr<s0>, [#sym.arg<0>]]
      {names = ["", "_x_base_index", "_x_size", "_x_stride", "_x_storage_offset", "_y_base_index", "_y_size", "_y_stride", "_y_storage_offset", "_all_bases"], node = "a"} : (tensor<2x?xf32, #sym.shape<[2, s0]>>) -> (none, tensor<2x?xf32, #sym.shape<[2, s0]>>)
  %b:2 = torch.higher_order "auto_functionalized_v2"(%y) args = [#torch.operator<"lib.op.default">, 0, [4, 3], [6, 1], 0, 0, [4, 3], [6, 1], 3, [#sym.arg<0>]]
      {names = ["", "_x_base_index", "_x_size", "_x_stride", "_x_storage_offset", "_y_base_index", "_y_size", "_y_stride", "_y_storage_offset", "_all_bases"], node = "b"} : (tensor<4x2x3xf32>) -> (none, tensor<4x2x3xf32>)
  %c:2 = torch.higher_order "auto_functionalized_v2"(%y) args = [#torch.operator<"lib.op.default">, 0, 0, 2, 4, 0, 0, 0, 2, [#sym.arg<0>]]
      {names = ["", "_x_base_index", "_x_slice_dim", "_x_slice_start", "_x_slice_end", "_y_base_index", "_y_slice_dim", "_y_slice_start", "_y_slice_end", "_all_bases"], node = "c"} : (tensor<4x2x3xf32>) -> (none, tensor<4x2x3xf32>)
  return %a#1, %b#1, %c#1 : tensor<2x?xf32, #sym.shape<[2, s0]>>, tensor<4x2x3xf32>, tensor<4x2x3xf32>
}
