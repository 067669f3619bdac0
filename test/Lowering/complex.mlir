// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// A length and an angle become two parts.
// CHECK-LABEL: func.func @polar(
// CHECK: kernel.read %arg0 (d0) -> (d0)
// CHECK: kernel.read %arg1 (d0) -> (d0)
// CHECK: math.cos %{{.*}} : f32
// CHECK: math.sin %{{.*}} : f32
// CHECK: complex.create %{{.*}}, %{{.*}} : complex<f32>
func.func @polar(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xcomplex<f32>> {
  %0 = torch.call "aten.polar.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>] {node = "polar"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}

// -----

// The last index chooses the part.
// CHECK-LABEL: func.func @view_as_real(
// CHECK: kernel.read %arg0 (d0, d1) -> (d0)
// CHECK: kernel.index (d0, d1) -> (d1)
// CHECK: complex.im %{{.*}} : complex<f32>
// CHECK: complex.re %{{.*}} : complex<f32>
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
func.func @view_as_real(%x: tensor<4xcomplex<f32>>) -> tensor<4x2xf32> {
  %0 = torch.call "aten.view_as_real.default"(%x) args = [#sym.arg<0>] {node = "view_as_real"} : (tensor<4xcomplex<f32>>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// -----

// In double precision, since parts may overflow that the result does not need.
// CHECK-LABEL: func.func @exp(
// CHECK: kernel.read %arg0 (d0) -> (d0)
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: math.exp %{{.*}} : f64
// CHECK: math.cos %{{.*}} : f64
// CHECK: math.sin %{{.*}} : f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @exp(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %0 = torch.call "aten.exp.default"(%x) args = [#sym.arg<0>] {node = "exp"} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}
