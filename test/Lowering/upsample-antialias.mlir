// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Weights of each axis once, normalised by their sum; then one axis after the other.
// CHECK-LABEL: func.func @aa(
// CHECK: kernel.map
// CHECK: kernel.map
// CHECK: arith.divf %{{.*}}, %{{.*}} : f32
// CHECK: kernel.reduce [5] init
// CHECK: arith.divf %{{.*}}, %{{.*}} : f32
// CHECK: kernel.map
// CHECK: kernel.reduce [5] init
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d5) values(%{{.*}})
// CHECK: kernel.map
// CHECK: kernel.map
// CHECK: arith.divf %{{.*}}, %{{.*}} : f32
// CHECK: kernel.reduce [5] init
// CHECK: arith.divf %{{.*}}, %{{.*}} : f32
// CHECK: kernel.map
// CHECK: kernel.reduce [5] init
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d3) values(%{{.*}})
func.func @aa(%x: tensor<1x2x8x8xf32>) -> tensor<1x2x4x4xf32> {
  %0 = torch.call "aten._upsample_bilinear2d_aa.default"(%x) args = [#sym.arg<0>, [4, 4], false, unit, unit] {node = "aa"} : (tensor<1x2x8x8xf32>) -> tensor<1x2x4x4xf32>
  return %0 : tensor<1x2x4x4xf32>
}
