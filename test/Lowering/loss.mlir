// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// One element of each row is read; rows whose target is ignored do not count.
// CHECK-LABEL: func.func @nll(
// CHECK: kernel.reduce [3] init
// CHECK: kernel.read %arg1 (d0) -> (d0)
// CHECK: arith.cmpi ne, %{{.*}}, %{{.*}} : i64
// CHECK: kernel.read %arg1 (d0) -> (d0)
// CHECK: arith.cmpi ne, %{{.*}}, %{{.*}} : i64
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1) values(%{{.*}})
// CHECK: arith.cmpi ne, %{{.*}}, %{{.*}} : i64
// CHECK: kernel.reduce [3] init
// CHECK: kernel.read %arg1 (d0) -> (d0)
// CHECK: arith.cmpi ne, %{{.*}}, %{{.*}} : i64
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: kernel.reduce [3] init
// CHECK: kernel.read %arg1 (d0) -> (d0)
// CHECK: arith.cmpi ne, %{{.*}}, %{{.*}} : i64
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @nll(%x: tensor<3x5xf32>, %y: tensor<3xi64>) -> (tensor<f32>, tensor<f32>) {
  %0:2 = torch.call "aten.nll_loss_forward.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, unit, 1, -100] {node = "nll"} : (tensor<3x5xf32>, tensor<3xi64>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}

// -----

// Sums of a loss are carried in double precision.
// CHECK-LABEL: func.func @mse(
// CHECK: kernel.map
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: kernel.read %arg1 (d0, d1) -> (d0, d1)
// CHECK: kernel.map
// CHECK: kernel.reduce [3, 5] init
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d0, d1)
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: arith.divf %{{.*}}, %{{.*}} : f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @mse(%x: tensor<3x5xf32>, %y: tensor<3x5xf32>) -> tensor<f32> {
  %0 = torch.call "aten.mse_loss.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "mse"} : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}
