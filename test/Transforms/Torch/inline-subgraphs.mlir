// RUN: kiln-opt %s --torch-inline-subgraphs --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
// CHECK-NEXT: %[[Y:.*]] = torch.call "aten.cos.default"(%[[X]])
// CHECK-NEXT: return %[[Y]]
// CHECK-NOT: func.func private
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.higher_order "wrap_with_set_grad_enabled"(%x) args = [false, @submod_1, #sym.arg<0>]
      {node = "wrap"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @submod_1(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.call "aten.cos.default"(%x) args = [#sym.arg<0>] {node = "cos"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Wrappers of each form: options by name, an identifier, a list, a graph in a graph. A number that is
// handed in is one inside.
// CHECK-LABEL: func.func @wrappers
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
// CHECK-NEXT: torch.number 3 : i64 -> tensor<i64>
// CHECK-NEXT: %[[A:.*]] = torch.call "aten.sin.default"(%[[X]])
// CHECK-NEXT: %[[B:.*]] = torch.call "aten.cos.default"(%[[A]])
// CHECK-NEXT: %[[C:.*]] = torch.call "aten.tan.default"(%[[B]])
// CHECK-NEXT: return %[[C]]
// CHECK-NOT: func.func private
func.func @wrappers(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = torch.higher_order "invoke_subgraph"(%x) args = [@outer, "subgraph_0", #sym.arg<0>, 3]
      {node = "invoke"} : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.higher_order "tag_activation_checkpoint"(%a) args = [@cos, #sym.arg<0>, false]
      {names = ["", "", "use_reentrant"], node = "checkpoint"} : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.higher_order "hints_wrapper"(%b) args = [@tan, [#sym.arg<0>], {}, {hint = true}]
      {node = "hints"} : (tensor<4xf32>) -> tensor<4xf32>
  return %c : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>, %n: tensor<i64> {torch.value = 3 : i64}) -> tensor<4xf32> {
  %y = torch.higher_order "wrap_with_set_grad_enabled"(%x) args = [false, @sin, #sym.arg<0>]
      {node = "wrap"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @sin(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.call "aten.sin.default"(%x) args = [#sym.arg<0>] {node = "sin"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @cos(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.call "aten.cos.default"(%x) args = [#sym.arg<0>] {node = "cos"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @tan(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.call "aten.tan.default"(%x) args = [#sym.arg<0>] {node = "tan"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A branch that ranges of sizes decide on, and one that they do not.
module attributes {sym.symbols = {s0 = {min = 2, max = 9}}} {
  // CHECK-LABEL: func.func @cond
  // CHECK: torch.call "aten.sin.default"
  // CHECK-NOT: aten.cos.default
  // CHECK: torch.higher_order "cond"
  func.func @cond(%x: tensor<4xf32>) -> tensor<4xf32> {
    %p = torch.call "_operator.lt"() args = [#sym.expr<s0>, 10] {node = "lt"} : () -> tensor<i1>
    %q = torch.call "torch.sym_not"(%p) args = [#sym.scalar<0>] {node = "not"} : (tensor<i1>) -> tensor<i1>
    %a = torch.higher_order "cond"(%q, %x) args = [#sym.scalar<0>, @cos, @sin, [#sym.arg<1>]]
        {node = "cond"} : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
    %r = torch.call "_operator.lt"() args = [#sym.expr<s0>, 9] {node = "lt_1"} : () -> tensor<i1>
    %b = torch.higher_order "cond"(%r, %a) args = [#sym.scalar<0>, @cos, @sin, [#sym.arg<1>]]
        {node = "cond_1"} : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
    return %b : tensor<4xf32>
  }
  func.func private @sin(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = torch.call "aten.sin.default"(%x) args = [#sym.arg<0>] {node = "sin"} : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
  func.func private @cos(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = torch.call "aten.cos.default"(%x) args = [#sym.arg<0>] {node = "cos"} : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
