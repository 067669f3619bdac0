// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Lengths are checked, their running sums are the segments' ends, and each element goes to its segment.
// CHECK-LABEL: func.func @lengths(
// CHECK: kernel.map
// CHECK: kernel.check %{{.*}}, "segments are not as long as the dim that they divide
// CHECK: kernel.scan dim 0
// CHECK: kernel.map
// CHECK: kernel.scatter batch [] targets [2] places [6]
func.func @lengths(%x: tensor<6xf32>, %y: tensor<2xi64>) -> tensor<2xf32> {
  %0 = torch.call "aten.segment_reduce.default"(%x, %y) args = [#sym.arg<0>, "sum", #sym.arg<1>, unit, unit, 0, false, unit] {node = "lengths"} : (tensor<6xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
