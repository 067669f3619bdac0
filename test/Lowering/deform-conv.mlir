// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// What each element of the kernel meets, at places that data moves; then a product for each group.
// CHECK-LABEL: func.func @grouped(
// CHECK: %[[COLUMNS:.*]] = kernel.map
// CHECK: kernel.read %arg2 (d0, d1, d2, d3, d4, d5) -> (d0, 6*d2 + 2*d3 + 18*(d1 floordiv 2), d4, d5)
// CHECK: kernel.read %arg2 (d0, d1, d2, d3, d4, d5) -> (d0, 6*d2 + 2*d3 + 18*(d1 floordiv 2) + 1, d4, d5)
// CHECK-COUNT-4: kernel.read %arg0 (d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d6, d7) values({{.*}}) if
// CHECK: kernel.read %arg3
// CHECK: : tensor<1x4x3x3x3x4xf32>
// CHECK: kernel.contract batch [1, 2] m [3] n [3, 4] k [2, 3, 3]
// CHECK: kernel.read %[[COLUMNS]] (d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, 2*d1 + d5, d6, d7, d3, d4)
func.func @grouped(%x: tensor<1x4x5x6xf32>, %w: tensor<6x2x3x3xf32>, %o: tensor<1x36x3x4xf32>, %m: tensor<1x18x3x4xf32>, %b: tensor<6xf32>) -> tensor<1x6x3x4xf32> {
  %0 = torch.call "torchvision.deform_conv2d.default"(%x, %w, %o, %m, %b) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, #sym.arg<3>, #sym.arg<4>, 1, 1, 0, 0, 1, 1, 2, 2, true] {node = "deform"} : (tensor<1x4x5x6xf32>, tensor<6x2x3x3xf32>, tensor<1x36x3x4xf32>, tensor<1x18x3x4xf32>, tensor<6xf32>) -> tensor<1x6x3x4xf32>
  return %0 : tensor<1x6x3x4xf32>
}
