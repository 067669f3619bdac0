// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Sorting gives positions, by which the values are read. NaN is the largest.
// CHECK-LABEL: func.func @sort(
// CHECK: kernel.sort
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: arith.cmpf une, %{{.*}}, %{{.*}} : f32
// CHECK: kernel.map
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d0, d1)
// CHECK: kernel.map
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d0, d1)
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d0, d2) values(%{{.*}})
func.func @sort(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>) {
  %0:2 = torch.call "aten.sort.default"(%x) args = [#sym.arg<0>, 1, true] {node = "sort"} : (tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>)
  return %0#0, %0#1 : tensor<3x4xf32>, tensor<3x4xi64>
}

// -----

// The sort stops at the first two.
// CHECK-LABEL: func.func @topk(
// CHECK: kernel.sort attributes {first = 2 : i64}
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: arith.cmpf une, %{{.*}}, %{{.*}} : f32
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d0, d1)
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d0, d1)
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d0, d2) values(%{{.*}})
func.func @topk(%x: tensor<3x8xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>) {
  %0:2 = torch.call "aten.topk.default"(%x) args = [#sym.arg<0>, 2, -1, true, true] {node = "topk"} : (tensor<3x8xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi64>
}
