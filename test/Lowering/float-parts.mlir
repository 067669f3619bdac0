// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Small numbers are scaled before their exponent is read.
// CHECK-LABEL: func.func @frexp(
// CHECK: kernel.read %arg0 (d0) -> (d0)
// CHECK: arith.cmpf olt, %{{.*}}, %{{.*}} : f32
// CHECK: arith.bitcast %{{.*}} : f32 to i32
// CHECK: arith.shrsi %{{.*}}, %{{.*}} : i32
// CHECK: arith.bitcast %{{.*}} : i32 to f32
func.func @frexp(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %0:2 = torch.call "aten.frexp.Tensor"(%x) args = [#sym.arg<0>] {node = "frexp"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32>
}

// -----

// Numbers of the same sign are next to each other as integers.
// CHECK-LABEL: func.func @nextafter(
// CHECK: kernel.read %arg0 (d0) -> (d0)
// CHECK: kernel.read %arg1 (d0) -> (d0)
// CHECK: arith.bitcast %{{.*}} : f32 to i32
// CHECK: arith.bitcast %{{.*}} : i32 to f32
// CHECK: arith.bitcast %{{.*}} : i32 to f32
// CHECK: math.copysign %{{.*}}, %{{.*}} : f32
func.func @nextafter(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.nextafter.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>] {node = "nextafter"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
