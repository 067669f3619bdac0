// RUN: kiln-opt %s --torch-thread-random --split-input-file | FileCheck %s

// One branch draws: both take a state, which the caller draws.
// CHECK-LABEL: func.func @branches
// CHECK-SAME: %[[P:.*]]: tensor<i1>, %[[X:.*]]: tensor<4xf32>
// CHECK-NEXT: %[[S:.*]] = torch.call "aten.randint.low"() args = [0, {{[0-9]+}}, [2], #sym.dtype<i64>, unit, unit, unit] {{.*}} -> tensor<2xi64>
// CHECK-NEXT: torch.higher_order "cond"(%[[P]], %[[X]], %[[S]]) args = [#sym.arg<0>, @draws, @other, [#sym.arg<1>, #sym.arg<2>]]
// CHECK: func.func private @draws(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<2xi64> {torch.random_state})
// CHECK: func.func private @other(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<2xi64> {torch.random_state})
func.func @branches(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.higher_order "cond"(%p, %x) args = [#sym.arg<0>, @draws, @other, [#sym.arg<1>]] {node = "cond"} : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @draws(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.dropout.default"(%x) args = [#sym.arg<0>, 0.5, true] {node = "d"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// A state for each slice of a scan; the body of a while loop, in which a graph draws, draws that of its next round.
// CHECK-LABEL: func.func @loops
// CHECK: %[[S:.*]] = torch.call "aten.randint.low"() args = [0, {{[0-9]+}}, [#sym.expr<s0>, 2], {{.*}} -> tensor<?x2xi64, #sym.shape<[s0, 2]>>
// CHECK-NEXT: torch.higher_order "scan"(%{{.*}}, %{{.*}}, %{{.*}}, %[[S]]) args = [@step, [#sym.arg<0>], [#sym.arg<1>, #sym.arg<3>], [#sym.arg<2>]]
// CHECK: %[[T:.*]] = torch.call "aten.randint.low"() args = [0, {{[0-9]+}}, [2],
// CHECK-NEXT: %[[W:.*]]:2 = torch.higher_order "while_loop"(%{{.*}}, %{{.*}}, %[[T]]) args = [@test, @round, [#sym.arg<0>, #sym.arg<2>], [#sym.arg<1>]]
// CHECK: func.func private @step(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<2xi64> {torch.random_state}, %{{.*}}: tensor<4xf32>)
// CHECK: func.func private @test(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<2xi64> {torch.random_state}, %{{.*}}: tensor<4xf32>)
// CHECK: func.func private @round(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<2xi64> {torch.random_state}, %{{.*}}: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xi64>)
// CHECK: %[[N:.*]] = torch.higher_order "invoke_subgraph"
// CHECK: %[[R:.*]] = torch.call "aten.randint.low"
// CHECK-NEXT: return %[[N]], %[[R]]
// CHECK: func.func private @inside(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<2xi64> {torch.random_state})
func.func @loops(%x: tensor<4xf32>, %rows: tensor<?x4xf32, #sym.shape<[s0, 4]>>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = torch.higher_order "scan"(%x, %rows, %x) args = [@step, [#sym.arg<0>], [#sym.arg<1>], [#sym.arg<2>]] {node = "scan"} : (tensor<4xf32>, tensor<?x4xf32, #sym.shape<[s0, 4]>>, tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32, #sym.shape<[s0, 4]>>)
  %1 = torch.higher_order "while_loop"(%x, %x) args = [@test, @round, [#sym.arg<0>], [#sym.arg<1>]] {node = "while"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0#0, %1 : tensor<4xf32>, tensor<4xf32>
}
func.func private @step(%c: tensor<4xf32>, %row: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = torch.call "aten.rand_like.default"(%c) args = [#sym.arg<0>, unit, unit, unit, unit, unit] {node = "r"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %row : tensor<4xf32>, tensor<4xf32>
}
func.func private @test(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<i1> {
  %0 = torch.call "aten.any.default"(%x) args = [#sym.arg<0>] {node = "any"} : (tensor<4xf32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func private @round(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.higher_order "invoke_subgraph"(%x) args = [@inside, "id", #sym.arg<0>] {node = "call"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @inside(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.bernoulli.default"(%x) args = [#sym.arg<0>, unit] {node = "b"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Dropout that does nothing draws nothing.
// CHECK-LABEL: func.func @idle
// CHECK-NEXT: torch.higher_order "invoke_subgraph"(%{{.*}}) args = [@graph, "id", #sym.arg<0>]
func.func @idle(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.higher_order "invoke_subgraph"(%x) args = [@graph, "id", #sym.arg<0>] {node = "call"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @graph(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.dropout.default"(%x) args = [#sym.arg<0>, 0.5, false] {node = "d"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
