// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// The maximum first, then the sum, in one kernel.
// CHECK-LABEL: func.func @softmax(
// CHECK: kernel.map
// CHECK: kernel.reduce [4] init
// CHECK: arith.maximumf %arg1, %arg2 : f32
// CHECK: kernel.reduce [4] init
// CHECK: math.exp %{{.*}} : f32
// CHECK: arith.addf %arg1, %arg2 : f32
// CHECK: math.exp %{{.*}} : f32
// CHECK: arith.divf %{{.*}}, %{{.*}} : f32
func.func @softmax(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = torch.call "aten._softmax.default"(%x) args = [#sym.arg<0>, 1, false] {node = "softmax"} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// A row whose maximum is infinite is not shifted by it.
// CHECK-LABEL: func.func @logsumexp(
// CHECK: kernel.reduce [4] init
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: math.absf %{{.*}} : f32
// CHECK: arith.cmpf oeq, %{{.*}}, %{{.*}} : f32
// CHECK: kernel.reduce [4] init
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: math.exp %{{.*}} : f32
// CHECK: math.log %{{.*}} : f32
func.func @logsumexp(%x: tensor<3x4xf32>) -> tensor<3xf32> {
  %0 = torch.call "aten.logsumexp.default"(%x) args = [#sym.arg<0>, [1], false] {node = "logsumexp"} : (tensor<3x4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
