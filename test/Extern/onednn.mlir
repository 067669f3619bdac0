// RUN: kiln-opt %s --mark-extern="generators=onednn{elsewhere=true finite=true}" --outline-extern --generate-extern="generators=onednn{elsewhere=true finite=true}" --declare-extern --lower-extern --split-input-file | FileCheck %s

// A product with its bias and post-ops is one call; either operand of a sum may be what comes from the product.
// CHECK-LABEL: func.func @matmul
// CHECK: %[[OTHER:.*]] = kernel.extern "onednn" "matmul"(%arg0, %arg3) args = [#sym.arg<0>, #sym.arg<1>, unit, true, []]
// CHECK: kernel.extern "onednn" "matmul"(%arg0, %arg1, %arg2, %[[OTHER]]) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, true, ["gelu_erf", "add", "relu"], #sym.arg<3>]
// CHECK-NOT: torch.call
func.func @matmul(%x: tensor<?x4x8xf32, #sym.shape<[s0, 4, 8]>>, %w: tensor<16x8xf32>, %b: tensor<16xf32>, %v: tensor<16x8xf32>) -> tensor<?x4x16xf32, #sym.shape<[s0, 4, 16]>> {
  %0 = torch.call "aten.linear.default"(%x, %w, %b) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>] {node = "linear"} : (tensor<?x4x8xf32, #sym.shape<[s0, 4, 8]>>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x16xf32, #sym.shape<[s0, 4, 16]>>
  %1 = torch.call "aten.gelu.default"(%0) args = [#sym.arg<0>, "none"] {node = "gelu"} : (tensor<?x4x16xf32, #sym.shape<[s0, 4, 16]>>) -> tensor<?x4x16xf32, #sym.shape<[s0, 4, 16]>>
  %2 = torch.call "aten.linear.default"(%x, %v) args = [#sym.arg<0>, #sym.arg<1>, unit] {node = "linear_1"} : (tensor<?x4x8xf32, #sym.shape<[s0, 4, 8]>>, tensor<16x8xf32>) -> tensor<?x4x16xf32, #sym.shape<[s0, 4, 16]>>
  %3 = torch.call "aten.add.Tensor"(%1, %2) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add"} : (tensor<?x4x16xf32, #sym.shape<[s0, 4, 16]>>, tensor<?x4x16xf32, #sym.shape<[s0, 4, 16]>>) -> tensor<?x4x16xf32, #sym.shape<[s0, 4, 16]>>
  %4 = torch.call "aten.relu.default"(%3) args = [#sym.arg<0>] {node = "relu"} : (tensor<?x4x16xf32, #sym.shape<[s0, 4, 16]>>) -> tensor<?x4x16xf32, #sym.shape<[s0, 4, 16]>>
  return %4 : tensor<?x4x16xf32, #sym.shape<[s0, 4, 16]>>
}

// -----

// The transposition that decomposed programs have goes with the product.
// CHECK-LABEL: func.func @addmm
// CHECK: kernel.extern "onednn" "matmul"(%arg1, %arg2, %arg0) args = [#sym.arg<2>, #sym.arg<0>, #sym.arg<1>, true, []]
// CHECK-NOT: torch.call
func.func @addmm(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>) -> tensor<4x16xf32> {
  %0 = torch.call "aten.permute.default"(%w) args = [#sym.arg<0>, [1, 0]] {node = "permute"} : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %1 = torch.call "aten.addmm.default"(%b, %x, %0) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, 1, 1] {node = "addmm"} : (tensor<16xf32>, tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return %1 : tensor<4x16xf32>
}

// -----

// Left alone: other dtypes, sums that may have no terms, batches that are broadcast, a sum with what is broadcast.
// CHECK-LABEL: func.func @left
// CHECK: torch.call "aten.mm.default"
// CHECK: torch.call "aten.mm.default"
// CHECK: torch.call "aten.matmul.default"
// CHECK: kernel.extern "onednn" "matmul"{{.*}} false, []]
// CHECK: torch.call "aten.add.Tensor"
module attributes {sym.symbols = {s0 = {min = 0 : i64}}} {
func.func @left(%a: tensor<4x4xf64>, %b: tensor<4x?xf32, #sym.shape<[4, s0]>>, %c: tensor<?x4xf32, #sym.shape<[s0, 4]>>, %d: tensor<2x4x4xf32>, %e: tensor<1x4x4xf32>, %f: tensor<4x4xf32>, %g: tensor<4xf32>)
    -> (tensor<4x4xf64>, tensor<4x4xf32>, tensor<2x4x4xf32>, tensor<4x4xf32>) {
  %0 = torch.call "aten.mm.default"(%a, %a) args = [#sym.arg<0>, #sym.arg<1>] {node = "a"} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %1 = torch.call "aten.mm.default"(%b, %c) args = [#sym.arg<0>, #sym.arg<1>] {node = "b"} : (tensor<4x?xf32, #sym.shape<[4, s0]>>, tensor<?x4xf32, #sym.shape<[s0, 4]>>) -> tensor<4x4xf32>
  %2 = torch.call "aten.matmul.default"(%d, %e) args = [#sym.arg<0>, #sym.arg<1>] {node = "c"} : (tensor<2x4x4xf32>, tensor<1x4x4xf32>) -> tensor<2x4x4xf32>
  %3 = torch.call "aten.mm.default"(%f, %f) args = [#sym.arg<0>, #sym.arg<1>] {node = "d"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = torch.call "aten.add.Tensor"(%3, %g) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "e"} : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  return %0, %1, %2, %4 : tensor<4x4xf64>, tensor<4x4xf32>, tensor<2x4x4xf32>, tensor<4x4xf32>
}
}

// -----

// Convolutions, pooling and normalisation.
// CHECK-LABEL: func.func @windows
// CHECK: kernel.extern "onednn" "convolution"({{.*}}) args = [#sym.arg<0>, #sym.arg<1>, unit, [2, 2], [1, 1], [1, 1], [1], ["relu"]]
// CHECK: kernel.extern "onednn" "batch_norm"({{.*}}) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<1>, #sym.arg<1>, #sym.arg<1>, 1.000000e-05, true]
// CHECK: kernel.extern "onednn" "pooling"({{.*}}) args = [#sym.arg<0>, "max", [2, 2], [2, 2], [0, 0], [1, 1]]
// CHECK: kernel.extern "onednn" "layer_norm"({{.*}}) args = [#sym.arg<0>, #sym.arg<1>, unit, 1.000000e-05]
// CHECK-NOT: torch.call
func.func @windows(%x: tensor<2x3x16x16xf32>, %w: tensor<8x3x3x3xf32>, %b: tensor<8xf32>, %g: tensor<4xf32>) -> tensor<2x8x4x4xf32> {
  %0 = torch.call "aten.conv2d.default"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>, unit, [2, 2], [1, 1], [1, 1], 1] {node = "conv"} : (tensor<2x3x16x16xf32>, tensor<8x3x3x3xf32>) -> tensor<2x8x8x8xf32>
  %1 = torch.call "aten.relu.default"(%0) args = [#sym.arg<0>] {node = "relu"} : (tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  %2 = torch.call "aten.batch_norm.default"(%1, %b, %b, %b, %b) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, #sym.arg<3>, #sym.arg<4>, false, 0.1, 1.0e-05, true] {node = "norm"} : (tensor<2x8x8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x8x8xf32>
  %3 = torch.call "aten.relu.default"(%2) args = [#sym.arg<0>] {node = "relu_1"} : (tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  %4 = torch.call "aten.max_pool2d.default"(%3) args = [#sym.arg<0>, [2, 2], [], [0, 0], [1, 1], false] {node = "pool"} : (tensor<2x8x8x8xf32>) -> tensor<2x8x4x4xf32>
  %5 = torch.call "aten.layer_norm.default"(%4, %g) args = [#sym.arg<0>, [4], #sym.arg<1>, unit, 1.0e-05, true] {node = "layer_norm"} : (tensor<2x8x4x4xf32>, tensor<4xf32>) -> tensor<2x8x4x4xf32>
  return %5 : tensor<2x8x4x4xf32>
}
