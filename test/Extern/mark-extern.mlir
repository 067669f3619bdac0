// RUN: kiln-opt %s --load-plugin=%extern_test --mark-extern="generators=test" --split-input-file | FileCheck %s
// RUN: kiln-opt %s --load-plugin=%extern_test --mark-extern="generators=test" --mark-extern="generators=test" --split-input-file | FileCheck %s

// The larger pattern has the subgraph; a predicate on the dtype or on the rank that fails leaves it to the smaller one. A second run
// changes nothing.
// CHECK-LABEL: func.func @predicates
// CHECK: torch.call "aten.add.Tensor"{{.*}}kernel.extern = {generator = "test", group = 0 : i64, pattern = "add_relu"}
// CHECK: torch.call "aten.relu.default"{{.*}}kernel.extern = {generator = "test", group = 0 : i64, pattern = "add_relu"}
// CHECK: torch.call "aten.add.Tensor"
// CHECK-NOT: kernel.extern
// CHECK: torch.call "aten.relu.default"{{.*}}kernel.extern = {generator = "test", group = 1 : i64, pattern = "relu"}
func.func @predicates(%x: tensor<4x8xf32>, %z: tensor<8xf64>) -> (tensor<4x8xf32>, tensor<8xf64>) {
  %0 = torch.call "aten.add.Tensor"(%x, %x) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = torch.call "aten.relu.default"(%0) args = [#sym.arg<0>] {node = "relu"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = torch.call "aten.add.Tensor"(%z, %z) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add_1"} : (tensor<8xf64>, tensor<8xf64>) -> tensor<8xf64>
  %3 = torch.call "aten.relu.default"(%2) args = [#sym.arg<0>] {node = "relu_1"} : (tensor<8xf64>) -> tensor<8xf64>
  return %1, %3 : tensor<4x8xf32>, tensor<8xf64>
}

// -----

// The sum is used by others, too: only the relu can be taken.
// CHECK-LABEL: func.func @used_outside
// CHECK: torch.call "aten.add.Tensor"
// CHECK-NOT: kernel.extern
// CHECK: torch.call "aten.relu.default"{{.*}} pattern = "relu"
func.func @used_outside(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = torch.call "aten.add.Tensor"(%x, %x) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = torch.call "aten.relu.default"(%0) args = [#sym.arg<0>] {node = "relu"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// A result that is used between the subgraph's ops would have to be there before the call.
// CHECK-LABEL: func.func @used_before
// CHECK-NOT: pattern = "wave"
// CHECK: return
// CHECK-LABEL: func.func @used_after
// CHECK: torch.call "aten.sin.default"{{.*}} pattern = "wave"
// CHECK: torch.call "aten.cos.default"{{.*}} pattern = "wave", results = array<i64: 0, 0, 1, 0>
func.func @used_before(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = torch.call "aten.sin.default"(%x) args = [#sym.arg<0>] {node = "sin"} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = torch.call "aten.exp.default"(%0) args = [#sym.arg<0>] {node = "exp"} : (tensor<8xf32>) -> tensor<8xf32>
  %2 = torch.call "aten.cos.default"(%0) args = [#sym.arg<0>] {node = "cos"} : (tensor<8xf32>) -> tensor<8xf32>
  return %1, %2 : tensor<8xf32>, tensor<8xf32>
}
func.func @used_after(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = torch.call "aten.sin.default"(%x) args = [#sym.arg<0>] {node = "sin"} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = torch.call "aten.cos.default"(%0) args = [#sym.arg<0>] {node = "cos"} : (tensor<8xf32>) -> tensor<8xf32>
  %2 = torch.call "aten.exp.default"(%0) args = [#sym.arg<0>] {node = "exp"} : (tensor<8xf32>) -> tensor<8xf32>
  return %1, %2 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Nested graphs are looked at as well.
// CHECK-LABEL: func.func private @branch
// CHECK: torch.call "aten.relu.default"{{.*}} pattern = "relu"
func.func @main(%p: tensor<i1>, %x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = torch.higher_order "cond"(%p, %x) args = [#sym.scalar<0>, @branch, @branch, [#sym.arg<1>]] {node = "cond"} : (tensor<i1>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @branch(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "relu"} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
