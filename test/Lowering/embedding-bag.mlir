// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Offsets become the number of the bag that an index is in; rows are added where their bag is.
// CHECK-LABEL: func.func @sum(
// CHECK: kernel.reduce [2] init
// CHECK: kernel.expect %{{.*}} if %{{.*}}, "aten._embedding_bag_forward_only.default: an offset past the indices
// CHECK: kernel.scatter batch [4] targets [2] places [6] perm [1, 0]
// CHECK: kernel.read %arg0 (d0, d1, d2, d3) -> (d3, d0) values(%{{.*}})
// CHECK: kernel.scatter batch [] targets [2] places [6]
func.func @sum(%x: tensor<9x4xf32>, %y: tensor<6xi64>, %z: tensor<2xi64>) -> (tensor<2x4xf32>, tensor<6xi64>, tensor<2xi64>, tensor<2xi64>) {
  %0:4 = torch.call "aten._embedding_bag_forward_only.default"(%x, %y, %z) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, false, 0, false, unit, false, -1] {node = "sum"} : (tensor<9x4xf32>, tensor<6xi64>, tensor<2xi64>) -> (tensor<2x4xf32>, tensor<6xi64>, tensor<2xi64>, tensor<2xi64>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<2x4xf32>, tensor<6xi64>, tensor<2xi64>, tensor<2xi64>
}
