// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// The runtime decomposes; only the lower triangle is read.
// CHECK-LABEL: func.func @eigh(
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: kernel.index (d0, d1, d2) -> (d1)
// CHECK: kernel.index (d0, d1, d2) -> (d2)
// CHECK: kernel.extern "kiln" "kiln_linalg_eigh_f64"(%{{.*}}) args = [#sym.arg<0>] projection = [0, 1, 2]
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @eigh(%x: tensor<3x3xf32>) -> (tensor<3xf32>, tensor<3x3xf32>) {
  %0:2 = torch.call "aten._linalg_eigh.default"(%x) args = [#sym.arg<0>, "L", true] {node = "eigh"} : (tensor<3x3xf32>) -> (tensor<3xf32>, tensor<3x3xf32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3x3xf32>
}
