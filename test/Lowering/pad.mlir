// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// The padded part is a read under a condition.
// CHECK-LABEL: func.func @constant(
// CHECK: kernel.inside (d0, d1) -> (d1 - 1) bounds [4]
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1 - 1) if %{{.*}} else(%{{.*}}
func.func @constant(%x: tensor<3x4xf32>) -> tensor<3x7xf32> {
  %0 = torch.call "aten.constant_pad_nd.default"(%x) args = [#sym.arg<0>, [1, 2], 0.5] {node = "constant"} : (tensor<3x4xf32>) -> tensor<3x7xf32>
  return %0 : tensor<3x7xf32>
}

// -----

// Reflection is arithmetic of indices: nothing is tested.
// CHECK-LABEL: func.func @reflection(
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, 3 - max(max(d1 - 1, 1 - d1) - 3, 3 - max(d1 - 1, 1 - d1)))
func.func @reflection(%x: tensor<3x4xf32>) -> tensor<3x7xf32> {
  %0 = torch.call "aten.reflection_pad1d.default"(%x) args = [#sym.arg<0>, [1, 2]] {node = "reflection"} : (tensor<3x4xf32>) -> tensor<3x7xf32>
  return %0 : tensor<3x7xf32>
}
