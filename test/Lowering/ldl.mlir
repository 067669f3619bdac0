// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// The runtime factors in double precision.
// CHECK-LABEL: func.func @factor(
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: kernel.extern "kiln" "kiln_linalg_ldl_factor_f64"(%{{.*}}) args = [#sym.arg<0>, false] projection = [0, 1, 2]
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @factor(%x: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xi32>, tensor<i32>) {
  %0:3 = torch.call "aten.linalg_ldl_factor_ex.default"(%x) args = [#sym.arg<0>, false, false] {node = "factor"} : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xi32>, tensor<i32>)
  return %0#0, %0#1, %0#2 : tensor<3x3xf32>, tensor<3xi32>, tensor<i32>
}
