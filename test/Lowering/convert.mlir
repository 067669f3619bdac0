// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Floats lose their fraction.
// CHECK-LABEL: func.func @to_integer(
// CHECK: kernel.read %arg0 (d0) -> (d0)
// CHECK: arith.fptosi %{{.*}} : f32 to i64
// CHECK: kernel.yield %{{.*}} : i64
func.func @to_integer(%x: tensor<4xf32>) -> tensor<4xi64> {
  %0 = torch.call "aten.to.dtype"(%x) args = [#sym.arg<0>, #sym.dtype<i64>, false, false, unit] {node = "to_integer"} : (tensor<4xf32>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}
