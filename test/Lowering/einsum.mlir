// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// One contraction: the product of both inputs is its left side.
// CHECK-LABEL: func.func @bilinear(
// CHECK: kernel.contract batch [] m [2] n [5] k [3, 4]
// CHECK: kernel.read %arg0 (d0, d1, d2, d3) -> (d0, d2)
// CHECK: kernel.read %arg1 (d0, d1, d2, d3) -> (d0, d3)
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: kernel.read %arg2 (d0, d1, d2, d3) -> (d1, d2, d3)
func.func @bilinear(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>, %z: tensor<5x3x4xf32>) -> tensor<2x5xf32> {
  %0 = torch.call "aten.bilinear.default"(%x, %y, %z) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, unit] {node = "bilinear"} : (tensor<2x3xf32>, tensor<2x4xf32>, tensor<5x3x4xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// A bilinear layer as PyTorch's decompositions write it: the product with the weight first.
// CHECK-LABEL: func.func @trilinear(
// CHECK: %[[PRODUCT:.*]] = kernel.contract batch [] m [2] n [5, 4] k [3]
// CHECK: kernel.contract batch [2] m [5] n [] k [4]
// CHECK: kernel.read %[[PRODUCT]]
// CHECK: kernel.read %arg2
func.func @trilinear(%x: tensor<2x3xf32>, %w: tensor<5x3x4xf32>, %y: tensor<2x4xf32>) -> tensor<2x5xf32> {
  %0 = torch.call "aten._trilinear.default"(%x, %w, %y) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, [1, 3], [0], [1, 2], [2, 3], 1] {node = "trilinear"} : (tensor<2x3xf32>, tensor<5x3x4xf32>, tensor<2x4xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}
