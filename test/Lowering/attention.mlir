// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Heads come after rows in memory, since what follows merges them.
// CHECK-LABEL: func.func @sdpa(
// CHECK: kernel.attention batch [1, 2] m <5> n <7> d <8> dv <8> scale 0.35355339059327373 perm [0, 2, 1, 3]
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5) -> (0, d1, d2, d4)
// CHECK: kernel.read %arg1 (d0, d1, d2, d3, d4, d5) -> (0, d1, d3, d4)
// CHECK: kernel.read %arg2 (d0, d1, d2, d3, d4, d5) -> (0, d1, d3, d5)
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d0, d2, d1, d3)
func.func @sdpa(%x: tensor<1x2x5x8xf32>, %y: tensor<1x2x7x8xf32>, %z: tensor<1x2x7x8xf32>) -> tensor<1x2x5x8xf32> {
  %0 = torch.call "aten.scaled_dot_product_attention.default"(%x, %y, %z) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, unit, 0.0, false, unit, false] {node = "sdpa"} : (tensor<1x2x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>) -> tensor<1x2x5x8xf32>
  return %0 : tensor<1x2x5x8xf32>
}

// -----

// The mask is not an operand.
// CHECK-LABEL: func.func @causal(
// CHECK: kernel.attention batch [1, 2] m <5> n <5> d <8> dv <8> scale 0.35355339059327373 causal perm [0, 2, 1, 3]
func.func @causal(%x: tensor<1x2x5x8xf32>, %y: tensor<1x2x5x8xf32>, %z: tensor<1x2x5x8xf32>) -> tensor<1x2x5x8xf32> {
  %0 = torch.call "aten.scaled_dot_product_attention.default"(%x, %y, %z) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, unit, 0.0, true, unit, false] {node = "causal"} : (tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) -> tensor<1x2x5x8xf32>
  return %0 : tensor<1x2x5x8xf32>
}

// -----

// A form of GPUs: what only training uses is not computed.
// CHECK-LABEL: func.func @efficient(
// CHECK: kernel.attention batch [1, 2] m <5> n <5> d <8> dv <8> scale 0.35355339059327373 causal perm [0, 2, 1, 3]
// CHECK: kernel.read %arg1
func.func @efficient(%x: tensor<1x2x5x8xf32>, %bias: tensor<1x2x5x5xf32>) -> tensor<1x2x5x8xf32> {
  %0:4 = torch.call "aten._scaled_dot_product_efficient_attention.default"(%x, %bias) args = [#sym.arg<0>, #sym.arg<0>, #sym.arg<0>, #sym.arg<1>, true, 0.0, true, unit] {node = "efficient"} : (tensor<1x2x5x8xf32>, tensor<1x2x5x5xf32>) -> (tensor<1x2x5x8xf32>, tensor<1x2x5xf32>, tensor<i64>, tensor<i64>)
  return %0#0 : tensor<1x2x5x8xf32>
}
