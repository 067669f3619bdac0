// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Each gradient goes to the element that was read.
// CHECK-LABEL: func.func @nearest(
// CHECK: kernel.scatter batch [1, 2] targets [4] places [8]
// CHECK: kernel.read %arg0 (d0, d1, d2, d3) -> (d0, d1, d3)
// CHECK: math.floor %{{.*}} : f32
// CHECK: arith.addf %arg1, %arg2 : f32
func.func @nearest(%x: tensor<1x2x8xf32>) -> tensor<1x2x4xf32> {
  %0 = torch.call "aten.upsample_nearest1d_backward.default"(%x) args = [#sym.arg<0>, [8], [1, 2, 4], unit] {node = "nearest"} : (tensor<1x2x8xf32>) -> tensor<1x2x4xf32>
  return %0 : tensor<1x2x4xf32>
}
