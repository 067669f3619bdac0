// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Sizes that are known: weights are constants.
// CHECK-LABEL: func.func @table
// CHECK-DAG: %[[FIRST:.*]] = kernel.constant dense<{{.*}}> : tensor<4xi32>
// CHECK-DAG: %[[WEIGHTS:.*]] = kernel.constant dense<{{.*}}> : tensor<4x2xi32>
// CHECK: kernel.read %[[FIRST]]
// CHECK: kernel.read %[[WEIGHTS]]
func.func @table(%x: tensor<1x3x5x8xui8>) -> tensor<1x3x5x4xui8> {
  %0 = torch.call "aten.upsample_bilinear2d.default"(%x) args = [#sym.arg<0>, [5, 4], false, unit, unit] {node = "resize"} : (tensor<1x3x5x8xui8>) -> tensor<1x3x5x4xui8>
  return %0 : tensor<1x3x5x4xui8>
}

// -----

// Otherwise the run computes them, and of how many bits they are.
// CHECK-LABEL: func.func @run
// CHECK: %[[FIRST:.*]] = kernel.map
// CHECK: } : tensor<5xi32>
// CHECK: %[[EXACT:.*]] = kernel.map
// CHECK: } : tensor<5x2xf64>
// CHECK: %[[BITS:.*]] = kernel.map
// CHECK: kernel.reduce [5, 2]
// CHECK: kernel.read %[[EXACT]]
// CHECK: } : tensor<i32>
// CHECK: %[[WEIGHTS:.*]] = kernel.map
// CHECK: } : tensor<5x2xi32>
// CHECK: kernel.read %[[FIRST]]
// CHECK: kernel.read %[[WEIGHTS]]
// CHECK: kernel.read %[[BITS]]
func.func @run(%x: tensor<1x3x?x5xui8, #sym.shape<[1, 3, s0, 5]>>) -> tensor<1x3x5x5xui8> {
  %0 = torch.call "aten.upsample_bilinear2d.default"(%x) args = [#sym.arg<0>, [5, 5], false, unit, unit] {node = "resize"} : (tensor<1x3x?x5xui8, #sym.shape<[1, 3, s0, 5]>>) -> tensor<1x3x5x5xui8>
  return %0 : tensor<1x3x5x5xui8>
}
