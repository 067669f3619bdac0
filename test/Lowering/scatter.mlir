// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// The dim that places are in comes last among the targets.
// CHECK-LABEL: func.func @scatter_add(
// CHECK: kernel.scatter batch [3] targets [4] places [2] perm [1, 0]
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d1, d0)
// CHECK: kernel.read %arg1 (d0, d1, d2) -> (d2, d0)
// CHECK: kernel.read %arg2 (d0, d1, d2) -> (d2, d0)
// CHECK: arith.addf %arg3, %arg4 : f32
func.func @scatter_add(%x: tensor<4x3xf32>, %y: tensor<2x3xi64>, %z: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %0 = torch.call "aten.scatter_add.default"(%x, %y, %z) args = [#sym.arg<0>, 0, #sym.arg<1>, #sym.arg<2>] {node = "scatter_add"} : (tensor<4x3xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// The maximum with what was there, and NaN wins.
// CHECK-LABEL: func.func @scatter_reduce(
// CHECK: kernel.scatter batch [3] targets [4] places [2] perm [1, 0]
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d1, d0)
// CHECK: kernel.read %arg1 (d0, d1, d2) -> (d2, d0)
// CHECK: kernel.read %arg2 (d0, d1, d2) -> (d2, d0)
// CHECK: arith.maximumf %arg3, %arg4 : f32
func.func @scatter_reduce(%x: tensor<4x3xf32>, %y: tensor<2x3xi64>, %z: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %0 = torch.call "aten.scatter_reduce.two"(%x, %y, %z) args = [#sym.arg<0>, 0, #sym.arg<1>, #sym.arg<2>, "amax", true] {node = "scatter_reduce"} : (tensor<4x3xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
