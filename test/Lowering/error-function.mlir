// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// A first guess and two steps of Newton's method in double precision.
// CHECK-LABEL: func.func @erfinv(
// CHECK: kernel.read %arg0 (d0) -> (d0)
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: math.log %{{.*}} : f64
// CHECK: math.sqrt %{{.*}} : f64
// CHECK: math.exp %{{.*}} : f64
// CHECK: math.exp %{{.*}} : f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @erfinv(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.erfinv.default"(%x) args = [#sym.arg<0>] {node = "erfinv"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
