// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// A whole factor needs no arithmetic of floats.
// CHECK-LABEL: func.func @nearest(
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d0, d1, d2 floordiv 2)
func.func @nearest(%x: tensor<1x2x4xf32>) -> tensor<1x2x8xf32> {
  %0 = torch.call "aten.upsample_nearest1d.default"(%x) args = [#sym.arg<0>, [8], unit] {node = "nearest"} : (tensor<1x2x4xf32>) -> tensor<1x2x8xf32>
  return %0 : tensor<1x2x8xf32>
}

// -----

// Two neighbours and their weights.
// CHECK-LABEL: func.func @linear(
// CHECK: kernel.index (d0, d1, d2) -> (d2)
// CHECK: arith.fptosi %{{.*}} : f32 to i64
// CHECK: kernel.read %arg0 (d0, d1, d2, d3) -> (d0, d1, d3) values(%{{.*}})
// CHECK: kernel.read %arg0 (d0, d1, d2, d3) -> (d0, d1, d3) values(%{{.*}})
// CHECK: arith.addf %{{.*}}, %{{.*}} : f32
func.func @linear(%x: tensor<1x2x4xf32>) -> tensor<1x2x8xf32> {
  %0 = torch.call "aten.upsample_linear1d.default"(%x) args = [#sym.arg<0>, [8], true, unit] {node = "linear"} : (tensor<1x2x4xf32>) -> tensor<1x2x8xf32>
  return %0 : tensor<1x2x8xf32>
}
