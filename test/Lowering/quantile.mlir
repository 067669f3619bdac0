// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Sorting gives positions; the number of NaNs decides which one counts.
// CHECK-LABEL: func.func @median(
// CHECK: kernel.sort
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: kernel.map
// CHECK: kernel.reduce [5] init
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d0, d1) values(%{{.*}})
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1) values(%{{.*}})
func.func @median(%x: tensor<3x5xf32>) -> (tensor<3xf32>, tensor<3xi64>) {
  %0:2 = torch.call "aten.median.dim"(%x) args = [#sym.arg<0>, 1, false] {node = "median"} : (tensor<3x5xf32>) -> (tensor<3xf32>, tensor<3xi64>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xi64>
}

// -----

// Between two elements the value is interpolated.
// CHECK-LABEL: func.func @quantile(
// CHECK: kernel.sort
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d1, d2) values(%{{.*}})
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d1, d2) values(%{{.*}})
// CHECK: math.ceil %{{.*}} : f32
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d1, d2) values(%{{.*}})
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d1, d2) values(%{{.*}})
func.func @quantile(%x: tensor<3x5xf32>) -> tensor<3xf32> {
  %0 = torch.call "aten.quantile.scalar"(%x) args = [#sym.arg<0>, 0.25, 1, false, "linear"] {node = "quantile"} : (tensor<3x5xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
