// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Evaluated in double precision and rounded once: rational functions near zero, an asymptotic expansion beyond.
// CHECK-LABEL: func.func @j0(
// CHECK: kernel.read %arg0 (d0) -> (d0)
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: math.absf %{{.*}} : f64
// CHECK: arith.cmpf ole, %{{.*}}, %{{.*}} : f64
// CHECK: math.sin %{{.*}} : f64
// CHECK: math.cos %{{.*}} : f64
// CHECK: math.sqrt %{{.*}} : f64
// CHECK: arith.cmpf une, %{{.*}}, %{{.*}} : f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @j0(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.special_bessel_j0.default"(%x) args = [#sym.arg<0>] {node = "j0"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
