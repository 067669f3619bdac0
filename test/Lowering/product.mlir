// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// A dim of size 1 stands for all that the other one has.
// CHECK-LABEL: func.func @tensordot
// CHECK-SAME: %[[A0:.*]]: tensor<{{.*}}>, %[[A1:.*]]: tensor
// CHECK: kernel.contract
// CHECK: kernel.read %[[A0]] (d0, d1, d2, d3) -> (d2, d0, 0)
// CHECK: kernel.read %[[A1]] (d0, d1, d2, d3) -> (d3, d2, d1)
func.func @tensordot(%a: tensor<?x4x1xf32, #sym.shape<[s0, 4, 1]>>, %b: tensor<5x?x6xf32, #sym.shape<[5, s0, 6]>>) -> tensor<4x6xf32> {
  %0 = torch.call "aten.tensordot.default"(%a, %b) args = [#sym.arg<0>, #sym.arg<1>, [0, 2], [1, 0]] {node = "tensordot"} : (tensor<?x4x1xf32, #sym.shape<[s0, 4, 1]>>, tensor<5x?x6xf32, #sym.shape<[5, s0, 6]>>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// Products of complex numbers are sums in a map.
// CHECK-LABEL: func.func @complex
// CHECK-NOT: kernel.contract
// CHECK: kernel.map
// CHECK: kernel.reduce [3]
// CHECK: complex.mul
func.func @complex(%a: tensor<2x3xcomplex<f32>>, %b: tensor<3x4xcomplex<f32>>) -> tensor<2x4xcomplex<f32>> {
  %0 = torch.call "aten.mm.default"(%a, %b) args = [#sym.arg<0>, #sym.arg<1>] {node = "mm"} : (tensor<2x3xcomplex<f32>>, tensor<3x4xcomplex<f32>>) -> tensor<2x4xcomplex<f32>>
  return %0 : tensor<2x4xcomplex<f32>>
}

// -----

// Training moves the running statistics, which are two further results.
// CHECK-LABEL: func.func @batch_norm
// CHECK-SAME: %[[X:.*]]: tensor<{{.*}}>, %[[MEAN:[^:]*]]: tensor<4xf32>, %[[VAR:[^:]*]]: tensor<4xf32>
// CHECK: kernel.read %[[MEAN]]
// CHECK: kernel.read %[[VAR]]
func.func @batch_norm(%x: tensor<?x4xf32, #sym.shape<[s0, 4]>>, %mean: tensor<4xf32>, %var: tensor<4xf32>) -> (tensor<?x4xf32, #sym.shape<[s0, 4]>>, tensor<4xf32>, tensor<4xf32>) {
  %0:3 = torch.call "aten.batch_norm.default"(%x, %mean, %var) args = [#sym.arg<0>, unit, unit, #sym.arg<1>, #sym.arg<2>, true, 1.000000e-01 : f64, 1.000000e-05 : f64, false] {node = "batch_norm", updates = array<i64: 1, 2>} : (tensor<?x4xf32, #sym.shape<[s0, 4]>>, tensor<4xf32>, tensor<4xf32>) -> (tensor<?x4xf32, #sym.shape<[s0, 4]>>, tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1, %0#2 : tensor<?x4xf32, #sym.shape<[s0, 4]>>, tensor<4xf32>, tensor<4xf32>
}
