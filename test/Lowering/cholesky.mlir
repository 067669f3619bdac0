// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// The inverse of the factor, by a loop over its rows, times itself; zeros of the triangle take no part.
// CHECK-LABEL: func.func @cholesky_inverse(
// CHECK: kernel.check %{{.*}}, "a diagonal element is zero
// CHECK: kernel.for @loop_0 length 3(%{{.*}}) over(%{{.*}}) with(%{{.*}})
// CHECK: kernel.reduce [3]
// CHECK: %[[LEFT:.*]] = arith.cmpi sle, %{{.*}}, %[[K:.*]] : i64
// CHECK: %[[RIGHT:.*]] = arith.cmpi sle, %{{.*}}, %[[K]] : i64
// CHECK: %[[BOTH:.*]] = arith.andi %[[LEFT]], %[[RIGHT]] : i1
// CHECK: arith.select %[[BOTH]], %{{.*}}, %{{.*}} : f64
// CHECK: func.func private @loop_0(%arg0: tensor<1x3x3xf64>, %arg1: tensor<i64>, %arg2: tensor<1x3x3xf64>) -> tensor<1x3x3xf64> {
func.func @cholesky_inverse(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = torch.call "aten.cholesky_inverse.default"(%x) args = [#sym.arg<0>, false] {node = "cholesky_inverse"} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}

// -----

// A loop over the columns, in double precision, which carries where it failed.
// CHECK-LABEL: func.func @factor(
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: kernel.for @loop_0 length 3(%{{.*}}, %{{.*}}) over(%{{.*}}) with()
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: func.func private @loop_0(%arg0: tensor<1x3x3xf64>, %arg1: tensor<1xi32>, %arg2: tensor<i64>) -> (tensor<1x3x3xf64>, tensor<1xi32>) {
func.func @factor(%x: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>) {
  %0:2 = torch.call "aten.linalg_cholesky_ex.default"(%x) args = [#sym.arg<0>, false, false] {node = "factor"} : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>)
  return %0#0, %0#1 : tensor<3x3xf32>, tensor<i32>
}
