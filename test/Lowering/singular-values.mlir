// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// The runtime wants columns: the matrix is transposed on its way in, U on its way out.
// CHECK-LABEL: func.func @svd(
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d0, d2, d1)
// CHECK: kernel.extern "kiln" "kiln_linalg_svd_f64"(%{{.*}}) args = [#sym.arg<0>] projection = [0, 1, 2, 3]
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d0, d2, d1)
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @svd(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3x3xf32>) {
  %0:3 = torch.call "aten._linalg_svd.default"(%x) args = [#sym.arg<0>, false, true, unit] {node = "svd"} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3x3xf32>)
  return %0#0, %0#1, %0#2 : tensor<4x3xf32>, tensor<3xf32>, tensor<3x3xf32>
}
