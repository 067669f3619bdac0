// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Places below zero count from the end, and the value written last stays.
// CHECK-LABEL: func.func @put(
// CHECK: kernel.scatter batch [3] targets [4] places [2] perm [1, 0]
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d1, d0)
// CHECK: kernel.yield %{{.*}} : f32
// CHECK: kernel.read %arg1 (d0, d1, d2) -> (d2)
// CHECK: arith.addi %{{.*}}, %{{.*}} : i64
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : i64
// CHECK: kernel.read %arg2 (d0, d1, d2) -> (d2, d0)
// CHECK: kernel.yield %{{.*}}, %{{.*}}, %{{.*}} : i64, i1, f32
// CHECK: kernel.yield %arg4 : f32
func.func @put(%x: tensor<4x3xf32>, %y: tensor<2xi64>, %z: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %0 = torch.call "aten.index_put.default"(%x, %y, %z) args = [#sym.arg<0>, [#sym.arg<1>], #sym.arg<2>, false] {node = "put"} : (tensor<4x3xf32>, tensor<2xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// Values for the same place add up.
// CHECK-LABEL: func.func @accumulate(
// CHECK: kernel.scatter batch [3] targets [4] places [2] perm [1, 0]
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d1, d0)
// CHECK: kernel.read %arg1 (d0, d1, d2) -> (d2)
// CHECK: kernel.read %arg2 (d0, d1, d2) -> (d2, d0)
// CHECK: arith.addf %arg3, %arg4 : f32
func.func @accumulate(%x: tensor<4x3xf32>, %y: tensor<2xi64>, %z: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %0 = torch.call "aten.index_put.default"(%x, %y, %z) args = [#sym.arg<0>, [#sym.arg<1>], #sym.arg<2>, true] {node = "accumulate"} : (tensor<4x3xf32>, tensor<2xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
