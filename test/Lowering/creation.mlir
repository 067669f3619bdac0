// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Every value follows from its place: nothing is read.
// CHECK-LABEL: func.func @arange(
// CHECK: kernel.map
// CHECK: kernel.index (d0) -> (3*d0 + 2)
// CHECK: kernel.yield %{{.*}} : i64
func.func @arange() -> tensor<3xi64> {
  %0 = torch.call "aten.arange.start_step"() args = [2, 11, 3, unit, unit, unit, unit] {node = "arange"} : () -> tensor<3xi64>
  return %0 : tensor<3xi64>
}

// -----

// The argument gives its size alone.
// CHECK-LABEL: func.func @full_like(
// CHECK: kernel.map
// CHECK: arith.constant 5.000000e-01 : f32
// CHECK: kernel.yield %{{.*}} : f32
func.func @full_like(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.full_like.default"(%x) args = [#sym.arg<0>, 0.5, unit, unit, unit, unit, unit] {node = "full_like"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
