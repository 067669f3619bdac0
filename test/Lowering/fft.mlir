// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Eight points are one sum each, with a table of sines and cosines, in double precision.
// CHECK-LABEL: func.func @rfft(
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: math.sin %{{.*}} : f64
// CHECK: math.cos %{{.*}} : f64
// CHECK: kernel.reduce [8] init
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> ((d1*d4) mod 8, 0)
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> ((d1*d4) mod 8, 1)
// CHECK: complex.create %{{.*}}, %{{.*}} : complex<f32>
func.func @rfft(%x: tensor<8xf32>) -> tensor<5xcomplex<f32>> {
  %0 = torch.call "aten._fft_r2c.default"(%x) args = [#sym.arg<0>, [0], 0, true] {node = "rfft"} : (tensor<8xf32>) -> tensor<5xcomplex<f32>>
  return %0 : tensor<5xcomplex<f32>>
}
