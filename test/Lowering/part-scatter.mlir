// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Each element tells whether it lies in the slice; nothing is copied first.
// CHECK-LABEL: func.func @slice_scatter(
// CHECK: kernel.map
// CHECK: kernel.inside (d0, d1) -> (d0 ceildiv 2 - 1, (d0 + 1) mod 2) bounds [2, 1]
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: kernel.read %arg1 (d0, d1) -> (d0 ceildiv 2 - 1, d1) if %{{.*}} else(%{{.*}}
func.func @slice_scatter(%x: tensor<6x3xf32>, %y: tensor<2x3xf32>) -> tensor<6x3xf32> {
  %0 = torch.call "aten.slice_scatter.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, 0, 1, 5, 2] {node = "slice_scatter"} : (tensor<6x3xf32>, tensor<2x3xf32>) -> tensor<6x3xf32>
  return %0 : tensor<6x3xf32>
}

// -----

// A row of the first argument is read from the second one.
// CHECK-LABEL: func.func @select_scatter(
// CHECK: kernel.inside (d0, d1) -> (d0 - 2) bounds [1]
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: kernel.read %arg1 (d0, d1) -> (d1) if %{{.*}} else(%{{.*}}
func.func @select_scatter(%x: tensor<6x3xf32>, %y: tensor<3xf32>) -> tensor<6x3xf32> {
  %0 = torch.call "aten.select_scatter.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, 0, 2] {node = "select_scatter"} : (tensor<6x3xf32>, tensor<3xf32>) -> tensor<6x3xf32>
  return %0 : tensor<6x3xf32>
}

// -----

// The gradient of reading a part is that part of zeros.
// CHECK-LABEL: func.func @slice_backward
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.0
// CHECK-DAG: %[[IN:.*]] = kernel.inside (d0, d1) -> (d0 ceildiv 2 - 1, (d0 + 1) mod 2) bounds [2, 1]
// CHECK: kernel.read %arg0 (d0, d1) -> (d0 ceildiv 2 - 1, d1) if %[[IN]] else(%[[ZERO]] : f32)
func.func @slice_backward(%g: tensor<2x3xf32>) -> tensor<6x3xf32> {
  %0 = torch.call "aten.slice_backward.default"(%g) args = [#sym.arg<0>, [6, 3], 0, 1, 5, 2] {node = "slice_backward"} : (tensor<2x3xf32>) -> tensor<6x3xf32>
  return %0 : tensor<6x3xf32>
}
