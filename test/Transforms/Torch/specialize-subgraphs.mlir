// RUN: kiln-opt %s --torch-specialize-subgraphs --split-input-file | FileCheck %s

// Calls with the same sizes share a copy, numbers and tensors say what the symbols are, and a branch is part of its graph.
// CHECK-LABEL: func.func @main
// CHECK: args = [@region, "r", #sym.expr<s0>, #sym.arg<0>, #sym.arg<1>]
// CHECK: args = [@[[OTHER:.*]], "r", #sym.expr<s1>, #sym.arg<0>, #sym.arg<1>]
// CHECK: args = [@[[OTHER]], "r", #sym.expr<s1>, #sym.arg<0>, #sym.arg<1>]
// CHECK: args = [@[[SEVEN:.*]], "r", 7, #sym.arg<0>, #sym.arg<1>]
func.func @main(%x: tensor<?xf32, #sym.shape<[s0]>>, %y: tensor<?xf32, #sym.shape<[s1]>>, %z: tensor<7xf32>, %p: tensor<i1>) {
  %0 = torch.higher_order "invoke_subgraph"(%x, %p) args = [@region, "r", #sym.expr<s0>, #sym.arg<0>, #sym.arg<1>] {node = "a"}
      : (tensor<?xf32, #sym.shape<[s0]>>, tensor<i1>) -> tensor<?xf32, #sym.shape<[2*s0]>>
  %1 = torch.higher_order "invoke_subgraph"(%y, %p) args = [@region, "r", #sym.expr<s1>, #sym.arg<0>, #sym.arg<1>] {node = "b"}
      : (tensor<?xf32, #sym.shape<[s1]>>, tensor<i1>) -> tensor<?xf32, #sym.shape<[2*s1]>>
  %2 = torch.higher_order "invoke_subgraph"(%y, %p) args = [@region, "r", #sym.expr<s1>, #sym.arg<0>, #sym.arg<1>] {node = "c"}
      : (tensor<?xf32, #sym.shape<[s1]>>, tensor<i1>) -> tensor<?xf32, #sym.shape<[2*s1]>>
  %3 = torch.higher_order "invoke_subgraph"(%z, %p) args = [@region, "r", 7, #sym.arg<0>, #sym.arg<1>] {node = "d"}
      : (tensor<7xf32>, tensor<i1>) -> tensor<14xf32>
  return
}
func.func private @region(%n: tensor<i64> {torch.value = #sym.expr<s0>}, %x: tensor<?xf32, #sym.shape<[s0]>>, %p: tensor<i1>) -> tensor<?xf32, #sym.shape<[2*s0]>> {
  %0 = torch.higher_order "cond"(%p, %x) args = [#sym.arg<0>, @twice, @twice, [#sym.arg<1>]] {node = "cond"}
      : (tensor<i1>, tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[2*s0]>>
  return %0 : tensor<?xf32, #sym.shape<[2*s0]>>
}
func.func private @twice(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[2*s0]>> {
  %0 = torch.call "aten.cat.default"(%x, %x) args = [[#sym.arg<0>, #sym.arg<1>], 0] {node = "cat"}
      : (tensor<?xf32, #sym.shape<[s0]>>, tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[2*s0]>>
  return %0 : tensor<?xf32, #sym.shape<[2*s0]>>
}
// CHECK: func.func private @region(%{{.*}}: tensor<i64> {torch.value = #sym.expr<s0>}
// CHECK: [#sym.arg<0>, @twice, @twice, [#sym.arg<1>]]
// CHECK: func.func private @twice(
// CHECK: func.func private @[[OTHER]](%{{.*}}: tensor<i64> {torch.value = #sym.expr<s1>}, %{{.*}}: tensor<?xf32, #sym.shape<[s1]>>, %{{.*}}: tensor<i1>) -> tensor<?xf32, #sym.shape<[2*s1]>>
// CHECK: [#sym.arg<0>, @[[BRANCH:.*]], @[[BRANCH]], [#sym.arg<1>]]
// CHECK: func.func private @[[BRANCH]](%{{.*}}: tensor<?xf32, #sym.shape<[s1]>>) -> tensor<?xf32, #sym.shape<[2*s1]>>
// CHECK: func.func private @[[SEVEN]](%{{.*}}: tensor<i64> {torch.value = #sym.expr<7>}, %{{.*}}: tensor<7xf32>, %{{.*}}: tensor<i1>) -> tensor<14xf32>

// -----

// A copy has calls with sizes of its own; names change places at once.
// CHECK-LABEL: func.func @main
// CHECK: args = [@[[SWAPPED:.*]], "o",
func.func @main(%x: tensor<?xf32, #sym.shape<[s0]>>, %y: tensor<?xf32, #sym.shape<[s1]>>) {
  %0 = torch.higher_order "invoke_subgraph"(%y, %x) args = [@outer, "o", #sym.arg<0>, #sym.arg<1>] {node = "a"}
      : (tensor<?xf32, #sym.shape<[s1]>>, tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>>
  return
}
func.func private @outer(%x: tensor<?xf32, #sym.shape<[s0]>>, %y: tensor<?xf32, #sym.shape<[s1]>>) -> tensor<?xf32, #sym.shape<[s1]>> {
  %0 = torch.higher_order "invoke_subgraph"(%y) args = [@inner, "i", #sym.arg<0>] {node = "b"} : (tensor<?xf32, #sym.shape<[s1]>>) -> tensor<?xf32, #sym.shape<[s1]>>
  return %0 : tensor<?xf32, #sym.shape<[s1]>>
}
func.func private @inner(%x: tensor<?xf32, #sym.shape<[s2]>>) -> tensor<?xf32, #sym.shape<[s2]>> {
  return %x : tensor<?xf32, #sym.shape<[s2]>>
}
// CHECK: func.func private @[[SWAPPED]](%{{.*}}: tensor<?xf32, #sym.shape<[s1]>>, %{{.*}}: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>>
// CHECK-NEXT: args = [@[[INNER:.*]], "i", #sym.arg<0>]
// CHECK: func.func private @[[INNER]](%{{.*}}: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>>

// -----

// No choice of symbols fits: other constants, a symbol with two values, an expression of another value, another rank.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-4: args = [@region,
func.func @main(%a: tensor<3x5x8xf32>, %b: tensor<4x5x10xf32>, %c: tensor<4x5x9xf32>, %d: tensor<4x5xf32>) {
  %0 = torch.higher_order "invoke_subgraph"(%a, %a) args = [@region, "r", #sym.arg<0>, #sym.arg<1>] {node = "a"} : (tensor<3x5x8xf32>, tensor<3x5x8xf32>) -> tensor<f32>
  %1 = torch.higher_order "invoke_subgraph"(%b, %a) args = [@region, "r", #sym.arg<0>, #sym.arg<1>] {node = "b"} : (tensor<4x5x10xf32>, tensor<3x5x8xf32>) -> tensor<f32>
  %2 = torch.higher_order "invoke_subgraph"(%c, %c) args = [@region, "r", #sym.arg<0>, #sym.arg<1>] {node = "c"} : (tensor<4x5x9xf32>, tensor<4x5x9xf32>) -> tensor<f32>
  %3 = torch.higher_order "invoke_subgraph"(%d, %d) args = [@region, "r", #sym.arg<0>, #sym.arg<1>] {node = "d"} : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<f32>
  return
}
func.func private @region(%x: tensor<4x?x?xf32, #sym.shape<[4, s0, 2*s0]>>, %y: tensor<4x?x?xf32, #sym.shape<[4, s0, 2*s0]>>) -> tensor<f32> {
  %0 = torch.call "aten.sum.default"(%x) args = [#sym.arg<0>, unit] {node = "sum"} : (tensor<4x?x?xf32, #sym.shape<[4, s0, 2*s0]>>) -> tensor<f32>
  return %0 : tensor<f32>
}
// CHECK: func.func private @region
// CHECK-NOT: func.func

// -----

// A graph that calls itself is left to be refused.
// CHECK-LABEL: func.func @main
// CHECK: args = [@endless,
func.func @main(%x: tensor<?xf32, #sym.shape<[s1]>>) {
  %0 = torch.higher_order "invoke_subgraph"(%x) args = [@endless, "e", #sym.arg<0>] {node = "a"} : (tensor<?xf32, #sym.shape<[s1]>>) -> tensor<1xf32>
  return
}
func.func private @endless(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<1xf32> {
  %0 = torch.call "aten.cat.default"(%x, %x) args = [[#sym.arg<0>, #sym.arg<1>], 0] {node = "cat"} : (tensor<?xf32, #sym.shape<[s0]>>, tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[2*s0]>>
  %1 = torch.higher_order "invoke_subgraph"(%0) args = [@endless, "e", #sym.arg<0>] {node = "b"} : (tensor<?xf32, #sym.shape<[2*s0]>>) -> tensor<1xf32>
  return %1 : tensor<1xf32>
}
// CHECK-NOT: func.func private @endless_
