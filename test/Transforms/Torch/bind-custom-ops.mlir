// RUN: kiln-opt %s --torch-bind-custom-ops='ops={"lib::scale(Tensor x, float factor=1.5, *, SymInt power=1) -> Tensor=my_scale","lib::many(Tensor[] xs, Tensor? y, str mode) -> (Tensor, Tensor[])=my_many","lib::add_.wide(Tensor(a!) x, Tensor y) -> ()=my_add"} pure=lib.pure.default' | FileCheck %s

// Defaults, and arguments by name, in the schema's order.
// CHECK-LABEL: func.func @scale
// CHECK: torch.call "lib.scale.default"(%arg0) args = [#sym.arg<0>, 1.500000e+00, 1] {node = "a", torch.symbol = "my_scale", torch.writes = array<i64>}
// CHECK: torch.call "lib.scale.default"(%{{.*}}) args = [#sym.arg<0>, 3.000000e+00, #sym.expr<s0>] {{.*}}torch.symbol = "my_scale"
// What is not declared stays as it is.
// CHECK: torch.call "lib.other.default"(%{{.*}}) args = [#sym.arg<0>] {node = "c"}
func.func @scale(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "lib.scale.default"(%x) args = [#sym.arg<0>] {node = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = torch.call "lib.scale.default"(%0) args = [#sym.expr<s0>, 3, #sym.arg<0>] {node = "b", names = ["power", "factor", "x"]} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = torch.call "lib.other.default"(%1) args = [#sym.arg<0>] {node = "c"} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// A list of tensors is their number and they; a result of several is flat.
// CHECK-LABEL: func.func @many
// CHECK: args = [2, #sym.arg<0>, #sym.arg<1>, unit, "mode"] {{.*}}torch.symbol = "my_many"
func.func @many(%x: tensor<4xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %0:3 = torch.call "lib.many.default"(%x, %y) args = [[#sym.arg<0>, #sym.arg<1>], unit, "mode"] {node = "a"} : (tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2xf32>)
  return %0#2 : tensor<2xf32>
}

// What is written; None as the result is none.
// CHECK-LABEL: func.func @writes
// CHECK: torch.call "lib.add_.wide"(%arg0, %arg1) {{.*}}torch.symbol = "my_add", torch.writes = array<i64: 0>}
func.func @writes(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  torch.call "lib.add_.wide"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>] {node = "a"} : (tensor<4xf32>, tensor<4xf32>) -> none
  return
}

// An op that writes nothing has an empty list.
// CHECK-LABEL: func.func @pure
// CHECK: torch.call "lib.pure.default"{{.*}} torch.writes = array<i64>
func.func @pure(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "lib.pure.default"(%x) args = [#sym.arg<0>] {node = "pure", names = [""]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
