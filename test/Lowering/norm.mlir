// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Mean and variance stay in the kernel that uses them.
// CHECK-LABEL: func.func @layer_norm(
// CHECK: kernel.map
// CHECK: kernel.reduce [4] init
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d0, d2)
// CHECK: kernel.reduce [4] init
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d0, d2)
// CHECK: math.sqrt %{{.*}} : f32
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: kernel.read %arg1 (d0, d1) -> (d1)
// CHECK: kernel.read %arg2 (d0, d1) -> (d1)
func.func @layer_norm(%x: tensor<3x4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = torch.call "aten.layer_norm.default"(%x, %y, %z) args = [#sym.arg<0>, [4], #sym.arg<1>, #sym.arg<2>, 1.0e-05, true] {node = "layer_norm"} : (tensor<3x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// There is no mean to subtract, so one reduction is enough.
// CHECK-LABEL: func.func @rms_norm(
// CHECK: kernel.map
// CHECK: kernel.reduce [4] init
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d0, d2)
// CHECK: math.sqrt %{{.*}} : f32
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: kernel.read %arg1 (d0, d1) -> (d1)
func.func @rms_norm(%x: tensor<3x4xf32>, %y: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = torch.call "aten.rms_norm.default"(%x, %y) args = [#sym.arg<0>, [4], #sym.arg<1>, unit] {node = "rms_norm"} : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
