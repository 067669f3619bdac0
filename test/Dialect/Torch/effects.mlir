// RUN: kiln-opt %s -cse -canonicalize | FileCheck %s

// Calls that only compute a value that nobody uses go; equal ones stay apart, for one may be written.
// CHECK-LABEL: func.func @pure
func.func @pure(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NOT: "aten.exp.default"
  %unused = torch.call "aten.exp.default"(%x) args = [#sym.arg<0>] {node = "exp"} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-COUNT-2: "aten.relu.default"
  %a = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "b"} : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// What writes, checks, draws random numbers, defines a symbol or is unknown stays.
// CHECK-LABEL: func.func @effects
func.func @effects(%x: tensor<4xf32>, %n: tensor<i64>, %p: tensor<i1>) {
  // CHECK: "aten.add_.Tensor"
  %0 = torch.call "aten.add_.Tensor"(%x) args = [#sym.arg<0>, 1, 1] {node = "add_"} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: "aten._assert_scalar.default"
  torch.call "aten._assert_scalar.default"(%p) args = [#sym.scalar<0>, "no"] {node = "assert"} : (tensor<i1>) -> ()
  // CHECK: "aten.rand_like.generator"
  %1 = torch.call "aten.rand_like.generator"(%x) args = [#sym.arg<0>, unit, unit, unit, unit, unit, unit] {node = "rand"}
      : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: "aten.item.default"
  %2 = torch.call "aten.item.default"(%n) args = [#sym.arg<0>]
      {node = "item", defines = ["u0"], values = [#sym.expr<u0>]} : (tensor<i64>) -> tensor<i64>
  // CHECK: "my.op.default"
  %3 = torch.call "my.op.default"(%x) args = [#sym.arg<0>] {node = "my"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
