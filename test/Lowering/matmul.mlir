// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Leading dims stay separate m dims.
// CHECK-LABEL: func.func @linear
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor{{.*}}, %[[A2:.*]]: tensor
// CHECK: kernel.contract batch [] m [s0, 128] n [4] k [8] lhs {
// CHECK: kernel.read %[[A0]] (d0, d1, d2, d3) -> (d0, d1, d3)
// CHECK: } rhs {
// CHECK: kernel.read %[[A1]] (d0, d1, d2, d3) -> (d2, d3)
// CHECK: } epilogue {
// CHECK: kernel.read %[[A2]] (d0, d1, d2, d3) -> (d2)
func.func @linear(%x: tensor<?x128x8xf32, #sym.shape<[s0, 128, 8]>>, %w: tensor<4x8xf32>, %b: tensor<4xf32>) -> tensor<?x128x4xf32, #sym.shape<[s0, 128, 4]>> {
  %0 = torch.call "aten.linear.default"(%x, %w, %b) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>] {node = "linear"} : (tensor<?x128x8xf32, #sym.shape<[s0, 128, 8]>>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x128x4xf32, #sym.shape<[s0, 128, 4]>>
  return %0 : tensor<?x128x4xf32, #sym.shape<[s0, 128, 4]>>
}

// -----

// Batch dims broadcast; the size-1 dim is read at 0.
// CHECK-LABEL: func.func @bmm_broadcast
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor
// CHECK: kernel.contract batch [3, 5] m [2] n [4] k [8] lhs {
// CHECK: kernel.read %[[A0]] (d0, d1, d2, d3, d4) -> (d0, 0, d2, d4)
// CHECK: } rhs {
// CHECK: kernel.read %[[A1]] (d0, d1, d2, d3, d4) -> (d1, d4, d3)
// CHECK: } epilogue {
func.func @bmm_broadcast(%x: tensor<3x1x2x8xf32>, %y: tensor<5x8x4xf32>) -> tensor<3x5x2x4xf32> {
  %0 = torch.call "aten.matmul.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>] {node = "matmul"} : (tensor<3x1x2x8xf32>, tensor<5x8x4xf32>) -> tensor<3x5x2x4xf32>
  return %0 : tensor<3x5x2x4xf32>
}

// -----

// No batch letters: both dims of the first operand are m dims; the result is permuted.
// CHECK-LABEL: func.func @einsum
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor
// CHECK: kernel.contract batch [] m [2, 3] n [5] k [4] perm [0, 2, 1] lhs {
// CHECK: kernel.read %[[A0]] (d0, d1, d2, d3) -> (d0, d1, d3)
// CHECK: } rhs {
// CHECK: kernel.read %[[A1]] (d0, d1, d2, d3) -> (d2, d3)
// CHECK: } epilogue {
func.func @einsum(%x: tensor<2x3x4xf32>, %y: tensor<5x4xf32>) -> tensor<2x5x3xf32> {
  %0 = torch.call "aten.einsum.default"(%x, %y) args = ["bij,kj->bki", [#sym.arg<0>, #sym.arg<1>], unit] {node = "einsum"} : (tensor<2x3x4xf32>, tensor<5x4xf32>) -> tensor<2x5x3xf32>
  return %0 : tensor<2x5x3xf32>
}

// -----

// Without an output, of letters that stand once; i is summed over before the product, the ellipsis is broadcast.
// CHECK-LABEL: func.func @einsum_ellipsis
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor
// CHECK: %[[SUM:.*]] = kernel.map {
// CHECK: kernel.reduce [5]
// CHECK: kernel.read %[[A0]] (d0, d1, d2) -> (d0, d2, d1)
// CHECK: kernel.contract batch [3] m [] n [6] k [4] lhs {
// CHECK: kernel.read %[[SUM]] (d0, d1, d2) -> (0, d2)
// CHECK: kernel.read %[[A1]] (d0, d1, d2) -> (d0, d2, d1)
func.func @einsum_ellipsis(%x: tensor<1x5x4xf32>, %y: tensor<3x4x6xf32>) -> tensor<3x6xf32> {
  %0 = torch.call "aten.einsum.default"(%x, %y) args = ["...ij, ...jk -> ...k", [#sym.arg<0>, #sym.arg<1>], unit] {node = "einsum"} : (tensor<1x5x4xf32>, tensor<3x4x6xf32>) -> tensor<3x6xf32>
  return %0 : tensor<3x6xf32>
}

// -----

// Grouped heads by an index map; the result has its heads next to the features.
// CHECK-LABEL: func.func @attention
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor{{.*}}, %[[A2:.*]]: tensor{{.*}}, %[[A3:.*]]: tensor
// CHECK: kernel.attention batch [2, 8] m <5> n <6> d <4> dv <4> scale 5.000000e-01 perm [0, 2, 1, 3] q {
// CHECK: kernel.read %[[A0]] (d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)
// CHECK: kernel.read %[[A1]] (d0, d1, d2, d3, d4, d5) -> (d0, d1 floordiv 4, d3, d4)
// CHECK: kernel.read %[[A2]] (d0, d1, d2, d3, d4, d5) -> (d0, d1 floordiv 4, d3, d5)
// CHECK: kernel.read %[[A3]] (d0, d1, d2, d3, d4, d5) -> (d2, d3)
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}}
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d0, d2, d1, d3)
func.func @attention(%q: tensor<2x8x5x4xf32>, %k: tensor<2x2x6x4xf32>, %v: tensor<2x2x6x4xf32>, %m: tensor<5x6xi1>) -> tensor<2x8x5x4xf32> {
  %0 = torch.call "aten.scaled_dot_product_attention.default"(%q, %k, %v, %m) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, #sym.arg<3>, 0.0, false, unit, true] {node = "sdpa"} : (tensor<2x8x5x4xf32>, tensor<2x2x6x4xf32>, tensor<2x2x6x4xf32>, tensor<5x6xi1>) -> tensor<2x8x5x4xf32>
  return %0 : tensor<2x8x5x4xf32>
}

// -----

// As many values as keys: nothing before the run compares symbols that are written differently.
// CHECK-LABEL: func.func @values_of_another_length
// CHECK-DAG: kernel.assert s0 - s1, "expected size s0 to be s1 
// CHECK-DAG: kernel.assert s1 - s0, "expected size s0 to be s1 
// CHECK: kernel.attention batch [2] m <5> n <s0>
module attributes {sym.symbols = {s0 = {min = 1 : i64}, s1 = {min = 1 : i64}}} {
  func.func @values_of_another_length(%q: tensor<2x5x4xf32>, %k: tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>>, %v: tensor<2x?x4xf32, #sym.shape<[2, s1, 4]>>) -> tensor<2x5x4xf32> {
    %0 = torch.call "aten.scaled_dot_product_attention.default"(%q, %k, %v) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, unit, 0.0, false, unit, false] {node = "sdpa"} : (tensor<2x5x4xf32>, tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>>, tensor<2x?x4xf32, #sym.shape<[2, s1, 4]>>) -> tensor<2x5x4xf32>
    return %0 : tensor<2x5x4xf32>
  }
}

// -----

// Sums in f32 are the result as they are.
// CHECK-LABEL: func.func @out_dtype(
// CHECK: kernel.contract batch [] m [4] n [5] k [8]
// CHECK: ^bb0(%[[SUM:.*]]: f32):
// CHECK-NEXT: kernel.yield %[[SUM]] : f32
func.func @out_dtype(%x: tensor<4x8xbf16>, %y: tensor<8x5xbf16>) -> tensor<4x5xf32> {
  %0 = torch.call "aten.mm.dtype"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, #sym.dtype<f32>] {node = "mm"} : (tensor<4x8xbf16>, tensor<8x5xbf16>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}
