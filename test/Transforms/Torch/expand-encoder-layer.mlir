// RUN: kiln-opt %s --torch-expand-encoder-layer --split-input-file | FileCheck %s

// Norms follow the sums; scores of padding keys are masked in all heads and rows.
// CHECK-LABEL: func.func @norm_last
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x5x8xf32, #sym.shape<[s0, 5, 8]>>, %[[PAD:[^:]*]]: tensor<?x5xf32, #sym.shape<[s0, 5]>>
// CHECK: %[[QKV:.*]] = torch.call "aten.linear.default"(%[[X]],
// CHECK: torch.call "aten.slice.Tensor"(%[[QKV]]) args = [#sym.arg<0>, 2, 0, 8, 1]
// CHECK: torch.call "aten.reshape.default"({{.*}}) args = [#sym.arg<0>, [#sym.expr<s0>, 5, 2, 4]]
// CHECK: torch.call "aten.mul.Scalar"({{.*}}) args = [#sym.arg<0>, 5.000000e-01]
// CHECK: %[[SCORES:.*]] = torch.call "aten.matmul.default"({{.*}} -> tensor<?x2x5x5xf32, #sym.shape<[s0, 2, 5, 5]>>
// CHECK: %[[BOOL:.*]] = torch.call "aten.ne.Scalar"(%[[PAD]])
// CHECK: %[[MASK:.*]] = torch.call "aten.reshape.default"(%[[BOOL]]) args = [#sym.arg<0>, [#sym.expr<s0>, 1, 1, 5]]
// CHECK: torch.call "aten.masked_fill.Scalar"(%[[SCORES]], %[[MASK]])
// CHECK: torch.call "aten.softmax.int"
// CHECK: %[[OUT:.*]] = torch.call "aten.linear.default"
// CHECK-NEXT: %[[SUM:.*]] = torch.call "aten.add.Tensor"(%[[X]], %[[OUT]])
// CHECK-NEXT: %[[NORM:.*]] = torch.call "aten.layer_norm.default"(%[[SUM]],
// CHECK: "aten.gelu.default"
// CHECK: %[[FFN:.*]] = torch.call "aten.linear.default"
// CHECK-NEXT: %[[LAST:.*]] = torch.call "aten.add.Tensor"(%[[NORM]], %[[FFN]])
// CHECK-NEXT: %[[R:.*]] = torch.call "aten.layer_norm.default"(%[[LAST]],
// CHECK-NEXT: return %[[R]]
func.func @norm_last(%x: tensor<?x5x8xf32, #sym.shape<[s0, 5, 8]>>, %pad: tensor<?x5xf32, #sym.shape<[s0, 5]>>, %wi: tensor<24x8xf32>, %bi: tensor<24xf32>, %wo: tensor<8x8xf32>, %n: tensor<8xf32>, %w1: tensor<16x8xf32>, %b1: tensor<16xf32>, %w2: tensor<8x16xf32>) -> tensor<?x5x8xf32, #sym.shape<[s0, 5, 8]>> {
  %0 = torch.call "aten._transformer_encoder_layer_fwd.default"(%x, %wi, %bi, %wo, %n, %w1, %b1, %w2, %pad) args = [#sym.arg<0>, 8, 2, #sym.arg<1>, #sym.arg<2>, #sym.arg<3>, #sym.arg<4>, true, false, 1.0e-5, #sym.arg<4>, #sym.arg<4>, #sym.arg<4>, #sym.arg<4>, #sym.arg<5>, #sym.arg<6>, #sym.arg<7>, #sym.arg<4>, #sym.arg<8>, 1] {node = "layer"} : (tensor<?x5x8xf32, #sym.shape<[s0, 5, 8]>>, tensor<24x8xf32>, tensor<24xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<16x8xf32>, tensor<16xf32>, tensor<8x16xf32>, tensor<?x5xf32, #sym.shape<[s0, 5]>>) -> tensor<?x5x8xf32, #sym.shape<[s0, 5, 8]>>
  return %0 : tensor<?x5x8xf32, #sym.shape<[s0, 5, 8]>>
}

// -----

// Norms come first: what they read is added.
// CHECK-LABEL: func.func @norm_first
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x5x8xf32>
// CHECK-NEXT: %[[NORM:.*]] = torch.call "aten.layer_norm.default"(%[[X]],
// CHECK-NEXT: torch.call "aten.linear.default"(%[[NORM]],
// CHECK-NOT: masked_fill
// CHECK: %[[SUM:.*]] = torch.call "aten.add.Tensor"(%[[X]],
// CHECK-NEXT: torch.call "aten.layer_norm.default"(%[[SUM]],
// CHECK: "aten.relu.default"
// CHECK: %[[R:.*]] = torch.call "aten.add.Tensor"(%[[SUM]],
// CHECK-NEXT: return %[[R]]
func.func @norm_first(%x: tensor<2x5x8xf32>, %wi: tensor<24x8xf32>, %bi: tensor<24xf32>, %wo: tensor<8x8xf32>, %n: tensor<8xf32>, %w1: tensor<16x8xf32>, %b1: tensor<16xf32>, %w2: tensor<8x16xf32>) -> tensor<2x5x8xf32> {
  %0 = torch.call "aten._transformer_encoder_layer_fwd.default"(%x, %wi, %bi, %wo, %n, %w1, %b1, %w2) args = [#sym.arg<0>, 8, 2, #sym.arg<1>, #sym.arg<2>, #sym.arg<3>, #sym.arg<4>, false, true, 1.0e-5, #sym.arg<4>, #sym.arg<4>, #sym.arg<4>, #sym.arg<4>, #sym.arg<5>, #sym.arg<6>, #sym.arg<7>, #sym.arg<4>, unit, unit] {node = "layer"} : (tensor<2x5x8xf32>, tensor<24x8xf32>, tensor<24xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<16x8xf32>, tensor<16xf32>, tensor<8x16xf32>) -> tensor<2x5x8xf32>
  return %0 : tensor<2x5x8xf32>
}

// -----

// A mask without its kind, heads that do not divide the features: lowering refuses what stays.
// CHECK-LABEL: func.func @refused
// CHECK-COUNT-2: torch.call "aten._transformer_encoder_layer_fwd.default"
func.func @refused(%x: tensor<2x5x8xf32>, %mask: tensor<5x5xi1>, %wi: tensor<24x8xf32>, %bi: tensor<24xf32>, %wo: tensor<8x8xf32>, %n: tensor<8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5x8xf32>) {
  %0 = torch.call "aten._transformer_encoder_layer_fwd.default"(%x, %wi, %bi, %wo, %n, %mask) args = [#sym.arg<0>, 8, 2, #sym.arg<1>, #sym.arg<2>, #sym.arg<3>, #sym.arg<4>, false, true, 1.0e-5, #sym.arg<4>, #sym.arg<4>, #sym.arg<4>, #sym.arg<4>, #sym.arg<3>, #sym.arg<4>, #sym.arg<3>, #sym.arg<4>, #sym.arg<5>, unit] {node = "kind"} : (tensor<2x5x8xf32>, tensor<24x8xf32>, tensor<24xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<5x5xi1>) -> tensor<2x5x8xf32>
  %1 = torch.call "aten._transformer_encoder_layer_fwd.default"(%x, %wi, %bi, %wo, %n) args = [#sym.arg<0>, 8, 3, #sym.arg<1>, #sym.arg<2>, #sym.arg<3>, #sym.arg<4>, false, true, 1.0e-5, #sym.arg<4>, #sym.arg<4>, #sym.arg<4>, #sym.arg<4>, #sym.arg<3>, #sym.arg<4>, #sym.arg<3>, #sym.arg<4>, unit, unit] {node = "heads"} : (tensor<2x5x8xf32>, tensor<24x8xf32>, tensor<24xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
  return %0, %1 : tensor<2x5x8xf32>, tensor<2x5x8xf32>
}

// -----

// Attention of other keys: each input has its part of the weights. The weights of all heads are returned as their mean.
// CHECK-LABEL: func.func @attention
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x5x8xf32>, %[[K:[^:]*]]: tensor<2x5x8xf32>, %[[W:[^:]*]]: tensor<24x8xf32>
// CHECK: %[[WQ:.*]] = torch.call "aten.slice.Tensor"(%[[W]]) args = [#sym.arg<0>, 0, 0, 8, 1]
// CHECK: torch.call "aten.linear.default"(%[[Q]], %[[WQ]],
// CHECK: %[[WV:.*]] = torch.call "aten.slice.Tensor"(%[[W]]) args = [#sym.arg<0>, 0, 16, 24, 1]
// CHECK: torch.call "aten.linear.default"(%[[K]], %[[WV]],
// CHECK: %[[SCORES:.*]] = torch.call "aten.softmax.int"({{.*}} -> tensor<2x2x5x5xf32>
// CHECK: %[[OUT:.*]] = torch.call "aten.linear.default"({{.*}} -> tensor<2x5x8xf32>
// CHECK: %[[MEAN:.*]] = torch.call "aten.mean.dim"(%[[SCORES]])
// CHECK: return %[[OUT]], %[[MEAN]]
func.func @attention(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %wi: tensor<24x8xf32>, %bi: tensor<24xf32>, %wo: tensor<8x8xf32>, %bo: tensor<8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5x5xf32>) {
  %0:2 = torch.call "aten._native_multi_head_attention.default"(%q, %k, %wi, %bi, %wo, %bo) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<1>, 8, 2, #sym.arg<2>, #sym.arg<3>, #sym.arg<4>, #sym.arg<5>, unit, true, true, unit] {node = "attention"} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<24x8xf32>, tensor<24xf32>, tensor<8x8xf32>, tensor<8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5x5xf32>)
  return %0#0, %0#1 : tensor<2x5x8xf32>, tensor<2x5x5xf32>
}

// -----

// Weights that are returned, but are not asked for, are undefined: that is left to lowering.
// CHECK-LABEL: func.func @undefined_weights
// CHECK: torch.call "aten._native_multi_head_attention.default"
func.func @undefined_weights(%q: tensor<2x5x8xf32>, %wi: tensor<24x8xf32>, %bi: tensor<24xf32>, %wo: tensor<8x8xf32>, %bo: tensor<8xf32>) -> (tensor<2x5x8xf32>, tensor<0xf32>) {
  %0:2 = torch.call "aten._native_multi_head_attention.default"(%q, %wi, %bi, %wo, %bo) args = [#sym.arg<0>, #sym.arg<0>, #sym.arg<0>, 8, 2, #sym.arg<1>, #sym.arg<2>, #sym.arg<3>, #sym.arg<4>, unit, false, true, unit] {node = "attention"} : (tensor<2x5x8xf32>, tensor<24x8xf32>, tensor<24xf32>, tensor<8x8xf32>, tensor<8xf32>) -> (tensor<2x5x8xf32>, tensor<0xf32>)
  return %0#0, %0#1 : tensor<2x5x8xf32>, tensor<0xf32>
}
