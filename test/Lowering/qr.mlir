// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Reflectors and the upper triangle first, then Q from the reflectors.
// CHECK-LABEL: func.func @qr(
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: kernel.extern "kiln" "kiln_linalg_geqrf_f64"(%{{.*}}) args = [#sym.arg<0>] projection = [0, 1]
// CHECK: kernel.extern "kiln" "kiln_linalg_orgqr_f64"(%{{.*}}, %{{.*}}) args = [#sym.arg<0>, #sym.arg<1>] projection = [0]
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @qr(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3x3xf32>) {
  %0:2 = torch.call "aten.linalg_qr.default"(%x) args = [#sym.arg<0>, "reduced"] {node = "qr"} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3x3xf32>)
  return %0#0, %0#1 : tensor<4x3xf32>, tensor<3x3xf32>
}
