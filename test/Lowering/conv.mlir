// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// m = (n, spatial), k = (kernel, channel); the kernel dim of size 1 is no loop, and only the dim that is
// padded is tested.
// CHECK-LABEL: func.func @conv
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor{{.*}}, %[[A2:.*]]: tensor
// CHECK: kernel.contract batch [] m [s0, 5, 5] n [4] k [3, 3] lhs {
// CHECK: kernel.inside (d0, d1, d2, d3, d4, d5) -> (2*d1 + d4 - 1) bounds [9]
// CHECK: kernel.read %[[A0]] (d0, d1, d2, d3, d4, d5) -> (d0, d5, 2*d1 + d4 - 1, 2*d2) if %{{.*}} else(%{{.*}}
// CHECK: } rhs {
// CHECK: kernel.read %[[A1]] (d0, d1, d2, d3, d4, d5) -> (d3, d5, d4, 0)
// CHECK: } epilogue {
// CHECK: kernel.read %[[A2]] (d0, d1, d2, d3, d4, d5) -> (d3)
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d0, d2, d3, d1)
func.func @conv(%x: tensor<?x3x9x9xf32, #sym.shape<[s0, 3, 9, 9]>>, %w: tensor<4x3x3x1xf32>, %b: tensor<4xf32>) -> tensor<?x4x5x5xf32, #sym.shape<[s0, 4, 5, 5]>> {
  %0 = torch.call "aten.conv2d.default"(%x, %w, %b) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, [2, 2], [1, 0], [1, 1], 1] {node = "conv"} : (tensor<?x3x9x9xf32, #sym.shape<[s0, 3, 9, 9]>>, tensor<4x3x3x1xf32>, tensor<4xf32>) -> tensor<?x4x5x5xf32, #sym.shape<[s0, 4, 5, 5]>>
  return %0 : tensor<?x4x5x5xf32, #sym.shape<[s0, 4, 5, 5]>>
}

// -----

// One input channel for each output channel: a sum over the kernel, channels last.
// CHECK-LABEL: func.func @depthwise
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor
// CHECK: kernel.reduce [3, 3] init(%{{.*}} : f32) {
// CHECK: kernel.read %[[A0]] (d0, d1, d2, d3, d4, d5) -> (d0, d3, d1 + d4, d2 + d5)
// CHECK: kernel.read %[[A1]] (d0, d1, d2, d3, d4, d5) -> (d3, 0, d4, d5)
// CHECK: arith.mulf %{{.*}}, %{{.*}}
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d0, d2, d3, d1)
func.func @depthwise(%x: tensor<1x4x8x8xf32>, %w: tensor<4x1x3x3xf32>) -> tensor<1x4x6x6xf32> {
  %0 = torch.call "aten.conv2d.default"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 4] {node = "conv"} : (tensor<1x4x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x6x6xf32>
  return %0 : tensor<1x4x6x6xf32>
}

// -----

// With a large window over something computed, a contract whose columns are the channels.
// CHECK-LABEL: func.func @large_depthwise
// CHECK: kernel.contract batch [4] m [1, 2, 2] n [1] k [7, 7, 1] perm [1, 2, 3, 0, 4] lhs {
func.func @large_depthwise(%x: tensor<1x4x8x8xf32>, %w: tensor<4x1x7x7xf32>) -> tensor<1x4x2x2xf32> {
  %0 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "relu"} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %1 = torch.call "aten.conv2d.default"(%0, %w) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 4] {node = "conv"} : (tensor<1x4x8x8xf32>, tensor<4x1x7x7xf32>) -> tensor<1x4x2x2xf32>
  return %1 : tensor<1x4x2x2xf32>
}

// -----

// Groups are batches, next to the output channels in the result.
// CHECK-LABEL: func.func @grouped
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor
// CHECK: kernel.contract batch [2] m [1, 6] n [3] k [3, 2] perm [1, 2, 0, 3] lhs {
// CHECK: kernel.read %[[A0]] (d0, d1, d2, d3, d4, d5) -> (d1, 2*d0 + d5, d2 + d4)
// CHECK: } rhs {
// CHECK: kernel.read %[[A1]] (d0, d1, d2, d3, d4, d5) -> (3*d0 + d3, d5, d4)
// CHECK: } epilogue {
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (0, d1, d2 floordiv 3, d2 mod 3)
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d0, d2, d1)
func.func @grouped(%x: tensor<1x4x8xf32>, %w: tensor<6x2x3xf32>) -> tensor<1x6x6xf32> {
  %0 = torch.call "aten.conv1d.default"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>, unit, [1], [0], [1], 2] {node = "conv"} : (tensor<1x4x8xf32>, tensor<6x2x3xf32>) -> tensor<1x6x6xf32>
  return %0 : tensor<1x6x6xf32>
}

// -----

// Even positions have two positions of the kernel, and odd ones one: a product each, and a map that takes from
// both.
// CHECK-LABEL: func.func @transposed
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor
// CHECK: %[[EVEN:.*]] = kernel.contract batch [] m [1, 5] n [3] k [2, 2] lhs {
// CHECK: kernel.inside (d0, d1, d2, d3, d4) -> (d1 - d3) bounds [4]
// CHECK: kernel.read %[[A0]] (d0, d1, d2, d3, d4) -> (d0, d4, d1 - d3) if %{{.*}} else(%{{.*}}
// CHECK: } rhs {
// CHECK: kernel.read %[[A1]] (d0, d1, d2, d3, d4) -> (d4, d2, 2*d3)
// CHECK: %[[ODD:.*]] = kernel.contract batch [] m [1, 5] n [3] k [2] lhs {
// CHECK: kernel.read %[[A1]] (d0, d1, d2, d3) -> (d3, d2, 1)
// CHECK: kernel.inside (d0, d1, d2) -> (d1 mod 2) bounds [1]
// CHECK: %[[A:.*]] = kernel.read %[[EVEN]] (d0, d1, d2) -> (d0, d1 floordiv 2, d2) if
// CHECK: kernel.inside (d0, d1, d2) -> (d1 mod 2 - 1) bounds [1]
// CHECK: kernel.read %[[ODD]] (d0, d1, d2) -> (d0, d1 floordiv 2, d2) if %{{.*}} else(%[[A]]
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d0, d2, d1)
func.func @transposed(%x: tensor<1x2x4xf32>, %w: tensor<2x3x3xf32>) -> tensor<1x3x9xf32> {
  %0 = torch.call "aten.conv_transpose1d.default"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>, unit, [2], [0], [0], 1, [1]] {node = "conv"} : (tensor<1x2x4xf32>, tensor<2x3x3xf32>) -> tensor<1x3x9xf32>
  return %0 : tensor<1x3x9xf32>
}

// -----

// Both phases have two positions of the kernel, and are columns of one product. The padding is left out of its result.
// CHECK-LABEL: func.func @phases_together
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor
// CHECK: kernel.contract batch [] m [1, 5] n [2, 3] k [2, 2] lhs {
// CHECK: kernel.read %[[A0]] (d0, d1, d2, d3, d4, d5) -> (d0, d5, d1 - d4) if
// CHECK: kernel.read %[[A1]] (d0, d1, d2, d3, d4, d5) -> (d5, d3, d2 + 2*d4)
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (0, d1 floordiv 2, d1 mod 2, d2)
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d0, d1 + 1, d2)
func.func @phases_together(%x: tensor<1x2x4xf32>, %w: tensor<2x3x4xf32>) -> tensor<1x3x8xf32> {
  %0 = torch.call "aten.conv_transpose1d.default"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>, unit, [2], [1], [0], 1, [1]] {node = "conv"} : (tensor<1x2x4xf32>, tensor<2x3x4xf32>) -> tensor<1x3x8xf32>
  return %0 : tensor<1x3x8xf32>
}

// -----

// No input meets every second output, which is the bias.
// CHECK-LABEL: func.func @phase_of_bias
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor{{.*}}, %[[A2:.*]]: tensor
// CHECK-COUNT-1: kernel.contract
// CHECK: kernel.map {
// CHECK: %[[BIAS:.*]] = kernel.read %[[A2]] (d0, d1, d2) -> (d2)
// CHECK: %[[ONLY:.*]] = arith.addf %{{.*}}, %[[BIAS]]
// CHECK: kernel.inside (d0, d1, d2) -> (d1 mod 2) bounds [1]
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d0, d1 floordiv 2, d2) if %{{.*}} else(%[[ONLY]]
func.func @phase_of_bias(%x: tensor<1x2x4xf32>, %w: tensor<2x3x1xf32>, %b: tensor<3xf32>) -> tensor<1x3x7xf32> {
  %0 = torch.call "aten.conv_transpose1d.default"(%x, %w, %b) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, [2], [0], [0], 1, [1]] {node = "conv"} : (tensor<1x2x4xf32>, tensor<2x3x1xf32>, tensor<3xf32>) -> tensor<1x3x7xf32>
  return %0 : tensor<1x3x7xf32>
}
