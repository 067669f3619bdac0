// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// The runtime computes it in double precision.
// CHECK-LABEL: func.func @exp(
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: kernel.extern "kiln" "kiln_linalg_matrix_exp_f64"(%{{.*}}) args = [#sym.arg<0>] projection = [0, 1]
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @exp(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = torch.call "aten.linalg_matrix_exp.default"(%x) args = [#sym.arg<0>] {node = "exp"} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}
