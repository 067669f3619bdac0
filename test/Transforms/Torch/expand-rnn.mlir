// RUN: kiln-opt %s --torch-expand-rnn --split-input-file | FileCheck %s

// The product with the input is one for all steps; a step has the product with the hidden state.
// CHECK-LABEL: func.func @gru
// CHECK-SAME: %[[X:.*]]: tensor<?x2x5xf32, #sym.shape<[s0, 2, 5]>>, %[[H:.*]]: tensor<1x2x4xf32>, %[[WI:.*]]: tensor<12x5xf32>, %[[WH:.*]]: tensor<12x4xf32>
// CHECK-NEXT: %[[H0:.*]] = torch.call "aten.select.int"(%[[H]])
// CHECK-NEXT: %[[G:.*]] = torch.call "aten.linear.default"(%[[X]], %[[WI]]) {{.*}} -> tensor<?x2x12xf32, #sym.shape<[s0, 2, 12]>>
// CHECK-NEXT: %[[R:.*]]:2 = torch.higher_order "scan"(%[[H0]], %[[G]], %[[WH]]) args = [@rnn_step, [#sym.arg<0>], [#sym.arg<1>], [#sym.arg<2>]] {{.*}} -> (tensor<2x4xf32>, tensor<?x2x4xf32, #sym.shape<[s0, 2, 4]>>)
// CHECK-NEXT: %[[S:.*]] = torch.call "aten.stack.default"(%[[R]]#0)
// CHECK-NEXT: return %[[R]]#1, %[[S]]
// CHECK: func.func private @rnn_step(%[[H:.*]]: tensor<2x4xf32>, %[[G:.*]]: tensor<2x12xf32>, %[[W:.*]]: tensor<12x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
// CHECK-NEXT: torch.call "aten.linear.default"(%[[H]], %[[W]])
// CHECK-COUNT-2: "aten.sigmoid.default"
// CHECK-COUNT-1: "aten.tanh.default"
// CHECK: %[[N:.*]] = torch.call "aten.add.Tensor"
// CHECK-NEXT: return %[[N]], %[[N]]
func.func @gru(%x: tensor<?x2x5xf32, #sym.shape<[s0, 2, 5]>>, %h: tensor<1x2x4xf32>, %wi: tensor<12x5xf32>, %wh: tensor<12x4xf32>) -> (tensor<?x2x4xf32, #sym.shape<[s0, 2, 4]>>, tensor<1x2x4xf32>) {
  %0:2 = torch.call "aten.gru.input"(%x, %h, %wi, %wh) args = [#sym.arg<0>, #sym.arg<1>, [#sym.arg<2>, #sym.arg<3>], false, 1, 0.0, false, false, false] {node = "gru"} : (tensor<?x2x5xf32, #sym.shape<[s0, 2, 5]>>, tensor<1x2x4xf32>, tensor<12x5xf32>, tensor<12x4xf32>) -> (tensor<?x2x4xf32, #sym.shape<[s0, 2, 4]>>, tensor<1x2x4xf32>)
  return %0#0, %0#1 : tensor<?x2x4xf32, #sym.shape<[s0, 2, 4]>>, tensor<1x2x4xf32>
}

// -----

// One step of a cell needs no scan.
// CHECK-LABEL: func.func @cell
// CHECK-NOT: scan
// CHECK-COUNT-3: "aten.sigmoid.default"
// CHECK-NOT: lstm_cell
func.func @cell(%x: tensor<2x5xf32>, %h: tensor<2x4xf32>, %c: tensor<2x4xf32>, %wi: tensor<16x5xf32>, %wh: tensor<16x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0:2 = torch.call "aten.lstm_cell.default"(%x, %h, %c, %wi, %wh) args = [#sym.arg<0>, [#sym.arg<1>, #sym.arg<2>], #sym.arg<3>, #sym.arg<4>, unit, unit] {node = "cell"} : (tensor<2x5xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<16x5xf32>, tensor<16x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  return %0#0, %0#1 : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// Dropout between layers, and weights of another size, stay; lowering refuses them.
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-2: torch.call "aten.gru.input"
func.func @stays(%x: tensor<3x2x5xf32>, %h: tensor<1x2x4xf32>, %wi: tensor<12x5xf32>, %wh: tensor<12x4xf32>) -> (tensor<3x2x4xf32>, tensor<3x2x4xf32>) {
  %0:2 = torch.call "aten.gru.input"(%x, %h, %wi, %wh) args = [#sym.arg<0>, #sym.arg<1>, [#sym.arg<2>, #sym.arg<3>], false, 1, 0.5, true, false, false] {node = "gru"} : (tensor<3x2x5xf32>, tensor<1x2x4xf32>, tensor<12x5xf32>, tensor<12x4xf32>) -> (tensor<3x2x4xf32>, tensor<1x2x4xf32>)
  %1:2 = torch.call "aten.gru.input"(%x, %h, %wi, %h) args = [#sym.arg<0>, #sym.arg<1>, [#sym.arg<2>, #sym.arg<3>], false, 1, 0.0, false, false, false] {node = "gru_1"} : (tensor<3x2x5xf32>, tensor<1x2x4xf32>, tensor<12x5xf32>, tensor<1x2x4xf32>) -> (tensor<3x2x4xf32>, tensor<1x2x4xf32>)
  return %0#0, %1#0 : tensor<3x2x4xf32>, tensor<3x2x4xf32>
}
