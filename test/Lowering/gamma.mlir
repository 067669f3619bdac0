// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Negative numbers are reflected, which takes a sine.
// CHECK-LABEL: func.func @lgamma(
// CHECK: kernel.read %arg0 (d0) -> (d0)
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: math.sin %{{.*}} : f64
// CHECK: math.floor %{{.*}} : f64
// CHECK: math.floor %{{.*}} : f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @lgamma(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.lgamma.default"(%x) args = [#sym.arg<0>] {node = "lgamma"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
