// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Adjacent indices stay in place; negative ones count from the end.
// CHECK-LABEL: func.func @index
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor{{.*}}, %[[A2:.*]]: tensor
// CHECK: kernel.read %[[A1]] (d0, d1, d2) -> (d2)
// CHECK: arith.cmpi slt, %{{.*}}, %{{.*}}
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}}
// CHECK: kernel.read %[[A2]] (d0, d1, d2) -> (d1, 0)
// CHECK: arith.extsi %{{.*}}
// CHECK: arith.cmpi slt, %{{.*}}, %{{.*}}
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}}
// CHECK: kernel.read %[[A0]] (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%{{.*}}, %{{.*}})
func.func @index(%x: tensor<4x5x6xf32>, %i: tensor<3xi64>, %j: tensor<2x1xi32>) -> tensor<4x2x3xf32> {
  %0 = torch.call "aten.index.Tensor"(%x, %i, %j) args = [#sym.arg<0>, [unit, #sym.arg<1>, #sym.arg<2>]] {node = "index"} : (tensor<4x5x6xf32>, tensor<3xi64>, tensor<2x1xi32>) -> tensor<4x2x3xf32>
  return %0 : tensor<4x2x3xf32>
}

// -----

// Each part is read where the index lies in it.
// CHECK-LABEL: func.func @cat
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor
// CHECK: kernel.inside (d0, d1) -> (d1 - 3) bounds [4]
// CHECK: kernel.read %[[A1]] (d0, d1) -> (d0, d1 - 3) if %{{.*}} else(%{{.*}}
// CHECK: kernel.inside (d0, d1) -> (d1) bounds [3]
// CHECK: kernel.read %[[A0]] (d0, d1) -> (d0, d1) if %{{.*}} else(%{{.*}}
func.func @cat(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) -> tensor<2x7xf32> {
  %0 = torch.call "aten.cat.default"(%x, %y) args = [[#sym.arg<0>, #sym.arg<1>], 1] {node = "cat"} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
  return %0 : tensor<2x7xf32>
}

// -----

// The index is folded back into the tensor.
// CHECK-LABEL: func.func @pad
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: kernel.read %[[A0]] (d0, d1) -> (d0, 2 - max(max(d1 - 2, 2 - d1) - 2, 2 - max(d1 - 2, 2 - d1)))
func.func @pad(%x: tensor<2x3xf32>) -> tensor<2x6xf32> {
  %0 = torch.call "aten.pad.default"(%x) args = [#sym.arg<0>, [2, 1], "reflect", unit] {node = "pad"} : (tensor<2x3xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}
