// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Channels come last in memory, for vectors.
// CHECK-LABEL: func.func @max(
// CHECK: kernel.reduce [2, 2] init
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5) -> (d0, d3, 2*d1 + d4, 2*d2 + d5)
// CHECK: arith.maximumf %arg1, %arg2 : f32
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d0, d2, d3, d1)
func.func @max(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32> {
  %0 = torch.call "aten.max_pool2d.default"(%x) args = [#sym.arg<0>, [2, 2], [], [0, 0], [1, 1], false] {node = "max"} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  return %0 : tensor<1x2x2x2xf32>
}

// -----

// The border counts: the divisor is a constant.
// CHECK-LABEL: func.func @avg(
// CHECK: kernel.reduce [3, 3] init
// CHECK: kernel.inside (d0, d1, d2, d3, d4, d5) -> (2*d1 + d4 - 1, 2*d2 + d5 - 1) bounds [5, 5]
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5) -> (d0, d3, 2*d1 + d4 - 1, 2*d2 + d5 - 1) if %{{.*}} else(%{{.*}}
// CHECK: arith.divf %{{.*}}, %{{.*}} : f32
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d0, d2, d3, d1)
func.func @avg(%x: tensor<1x2x5x5xf32>) -> tensor<1x2x3x3xf32> {
  %0 = torch.call "aten.avg_pool2d.default"(%x) args = [#sym.arg<0>, [3, 3], [2, 2], [1, 1], false, true, unit] {node = "avg"} : (tensor<1x2x5x5xf32>) -> tensor<1x2x3x3xf32>
  return %0 : tensor<1x2x3x3xf32>
}
