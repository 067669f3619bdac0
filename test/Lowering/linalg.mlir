// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// A loop over the rows in double precision, with the matrix beside what it carries.
// CHECK-LABEL: func.func @triangular(
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: kernel.for @loop_0 length 3(%{{.*}}) over(%{{.*}}) with(%{{.*}})
// CHECK: func.func private @loop_0(%arg0: tensor<1x3x2xf64>, %arg1: tensor<i64>, %arg2: tensor<1x3x3xf64>) -> tensor<1x3x2xf64> {
func.func @triangular(%x: tensor<3x3xf32>, %y: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %0 = torch.call "aten.linalg_solve_triangular.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, true, true, false] {node = "triangular"} : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
