// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Symbolic integers are no arguments, nested arguments are flat, a predicate from sizes is an
// expression.
module attributes {sym.symbols = {s0 = {min = 2}}} {
  // CHECK-LABEL: func.func @main
  // CHECK-SAME: (%[[P:.*]]: tensor<1xi1>, %[[X:.*]]: tensor<?xf32, #sym.shape<[s0]>>)
  func.func @main(%p: tensor<1xi1>, %x: tensor<?xf32, #sym.shape<[s0]>>) -> (tensor<?xf32, #sym.shape<[s0]>>, tensor<?xf32, #sym.shape<[s0]>>) {
    // CHECK: %[[A:.*]] = kernel.cond %[[P]] : tensor<1xi1> then @t else @f(%[[X]], %[[X]])
    %0 = torch.higher_order "cond"(%p, %x) args = [#sym.arg<0>, @t, @f, [[#sym.arg<1>, 3], [#sym.expr<2*s0>, #sym.arg<1>]]]
        {node = "cond"} : (tensor<1xi1>, tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>>
    // CHECK-NOT: _operator
    %1 = torch.call "_operator.eq"() args = [#sym.expr<s0>, 5] {node = "eq"} : () -> tensor<i1>
    %2 = torch.call "torch.sym_not"(%1) args = [#sym.scalar<0>] {node = "not"} : (tensor<i1>) -> tensor<i1>
    // CHECK: kernel.cond when max(s0 - 5, 5 - s0) - 1 then @g else @h(%[[A]])
    %3 = torch.higher_order "cond"(%2, %0) args = [#sym.scalar<0>, @g, @h, [#sym.arg<1>]]
        {node = "cond_1"} : (tensor<i1>, tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>>
    return %0, %3 : tensor<?xf32, #sym.shape<[s0]>>, tensor<?xf32, #sym.shape<[s0]>>
  }
  // CHECK: func.func private @t(%[[X:.*]]: tensor<?xf32, {{.*}}>{{.*}}, %{{.*}}: tensor<?xf32, {{.*}}>{{.*}}) ->
  // CHECK: kernel.index (d0) -> (2*s0)
  func.func private @t(%x: tensor<?xf32, #sym.shape<[s0]>>, %three: tensor<i64> {torch.value = 3 : i64},
                       %n: tensor<i64> {torch.value = #sym.expr<2*s0>}, %y: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>> {
    %0 = torch.call "aten.mul.Tensor"(%x) args = [#sym.arg<0>, #sym.expr<2*s0>] {node = "mul"} : (tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>>
    return %0 : tensor<?xf32, #sym.shape<[s0]>>
  }
  // An argument that is a number can be used as a tensor.
  // CHECK: func.func private @f
  // CHECK: %[[N:.*]] = kernel.map
  // CHECK: kernel.index () -> (2*s0)
  // CHECK: kernel.read %[[N]]
  func.func private @f(%x: tensor<?xf32, #sym.shape<[s0]>>, %three: tensor<i64> {torch.value = 3 : i64},
                       %n: tensor<i64> {torch.value = #sym.expr<2*s0>}, %y: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>> {
    %0 = torch.call "aten.add.Tensor"(%y, %n) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add"} : (tensor<?xf32, #sym.shape<[s0]>>, tensor<i64>) -> tensor<?xf32, #sym.shape<[s0]>>
    return %0 : tensor<?xf32, #sym.shape<[s0]>>
  }
  func.func private @g(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>> {
    return %x : tensor<?xf32, #sym.shape<[s0]>>
  }
  func.func private @h(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>> {
    return %x : tensor<?xf32, #sym.shape<[s0]>>
  }
}

// -----

// Loops. What a graph writes as another expression of the same size is seen through a view.
module attributes {sym.symbols = {s0 = {min = 2, max = 100}}} {
  // CHECK-LABEL: func.func @main
  func.func @main(%n: tensor<i64>, %xs: tensor<?x4xf32, #sym.shape<[s0, 4]>>, %c: tensor<4xf32>)
      -> (tensor<i64>, tensor<4xf32>, tensor<?x2xf32, #sym.shape<[s0, 2]>>, tensor<?xf32, #sym.shape<[s0]>>) {
    // CHECK: kernel.while @go do @count(%{{.*}}) with(%{{.*}}) : (tensor<i64>, tensor<4xf32>) -> tensor<i64>
    %0 = torch.higher_order "while_loop"(%n, %c) args = [@go, @count, [#sym.arg<0>], [#sym.arg<1>]]
        {node = "while_loop"} : (tensor<i64>, tensor<4xf32>) -> tensor<i64>
    // CHECK: kernel.for @step length s0(%{{.*}}) over(%{{.*}}) with() : (tensor<4xf32>, tensor<?x4xf32, #sym.shape<[s0, 4]>>)
    // CHECK-SAME: -> (tensor<4xf32>, tensor<?x2xf32, #sym.shape<[s0, 2]>>)
    %1:2 = torch.higher_order "scan"(%c, %xs) args = [@step, [#sym.arg<0>], [#sym.arg<1>], []]
        {node = "scan"} : (tensor<4xf32>, tensor<?x4xf32, #sym.shape<[s0, 4]>>) -> (tensor<4xf32>, tensor<?x2xf32, #sym.shape<[s0, 2]>>)
    // CHECK: kernel.for @each length s0() over(%{{.*}}) with()
    %2 = torch.higher_order "map_impl"(%xs) args = [@each, [#sym.arg<0>], []]
        {node = "map"} : (tensor<?x4xf32, #sym.shape<[s0, 4]>>) -> tensor<?xf32, #sym.shape<[s0]>>
    // CHECK: kernel.invoke @same(%{{.*}})
    %3 = torch.higher_order "invoke_subgraph"(%2) args = [@same, "name", #sym.arg<0>]
        {node = "invoke"} : (tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>>
    return %0, %1#0, %1#1, %3 : tensor<i64>, tensor<4xf32>, tensor<?x2xf32, #sym.shape<[s0, 2]>>, tensor<?xf32, #sym.shape<[s0]>>
  }
  func.func private @go(%n: tensor<i64>, %c: tensor<4xf32>) -> tensor<i1> {
    %0 = torch.call "aten.gt.Scalar"(%n) args = [#sym.arg<0>, 0] {node = "gt"} : (tensor<i64>) -> tensor<i1>
    return %0 : tensor<i1>
  }
  func.func private @count(%n: tensor<i64>, %c: tensor<4xf32>) -> tensor<i64> {
    %0 = torch.call "aten.sub.Tensor"(%n) args = [#sym.arg<0>, 1, 1] {node = "sub"} : (tensor<i64>) -> tensor<i64>
    return %0 : tensor<i64>
  }
  func.func private @step(%c: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
    %0 = torch.call "aten.add.Tensor"(%c, %x) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = torch.call "aten.slice.Tensor"(%x) args = [#sym.arg<0>, 0, 0, 2, 1] {node = "slice"} : (tensor<4xf32>) -> tensor<2xf32>
    return %0, %1 : tensor<4xf32>, tensor<2xf32>
  }
  func.func private @each(%x: tensor<4xf32>) -> tensor<f32> {
    %0 = torch.call "aten.sum.default"(%x) args = [#sym.arg<0>, unit] {node = "sum"} : (tensor<4xf32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
  // CHECK: func.func private @same(%[[X:.*]]: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>>
  // CHECK: kernel.read %[[X]] {{.*}} : tensor<?xf32, #sym.shape<[s0]>> -> f32
  // CHECK: : tensor<?xf32, #sym.shape<[max(s0, 1)]>>
  // CHECK: : tensor<?xf32, #sym.shape<[s0]>>
  func.func private @same(%x: tensor<?xf32, #sym.shape<[max(s0, 1)]>>) -> tensor<?xf32, #sym.shape<[max(s0, 1)]>> {
    return %x : tensor<?xf32, #sym.shape<[max(s0, 1)]>>
  }
}

// -----

// Each branch defines the size of its result; what the call gives is read from its result.
module attributes {sym.symbols = {s0 = {min = 2}, u0 = {min = 0}, u1 = {}}} {
  // CHECK-LABEL: func.func @main
  // CHECK: %[[Y:.*]]:2 = kernel.cond %{{.*}} : tensor<i1> then @half else @two(%{{.*}}) : {{.*}} -> (tensor<?xf32, #sym.shape<[u0]>>, tensor<i64>)
  // CHECK: kernel.define "u1" from %[[Y]]#1
  func.func @main(%p: tensor<i1>, %x: tensor<?xf32, #sym.shape<[s0]>>) -> (tensor<?xf32, #sym.shape<[u0]>>, tensor<?xf32, #sym.shape<[u1]>>) {
    %0:2 = torch.higher_order "cond"(%p, %x) args = [#sym.arg<0>, @half, @two, [#sym.arg<1>]]
        {node = "cond", defines = ["u0", "u1"], values = [unit, #sym.expr<u1>]} : (tensor<i1>, tensor<?xf32, #sym.shape<[s0]>>) -> (tensor<?xf32, #sym.shape<[u0]>>, tensor<i64>)
    %1 = torch.call "aten.ones.default"() args = [[#sym.expr<u1>], unit, unit, unit, false] {node = "ones"} : () -> tensor<?xf32, #sym.shape<[u1]>>
    return %0#0, %1 : tensor<?xf32, #sym.shape<[u0]>>, tensor<?xf32, #sym.shape<[u1]>>
  }
  // CHECK: func.func private @half({{.*}}) -> (tensor<?xf32, #sym.shape<[u0]>>, tensor<i64>)
  // CHECK: kernel.define "u0" = s0 floordiv 2
  // CHECK: kernel.map {
  // CHECK: : tensor<?xf32, #sym.shape<[u0]>>
  func.func private @half(%x: tensor<?xf32, #sym.shape<[s0]>>) -> (tensor<?xf32, #sym.shape<[s0 floordiv 2]>>, tensor<i64>) {
    %0 = torch.call "aten.slice.Tensor"(%x) args = [#sym.arg<0>, 0, 0, #sym.expr<s0 floordiv 2>, 1] {node = "slice"} : (tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0 floordiv 2]>>
    %1 = torch.number #sym.expr<s0> -> tensor<i64>
    return %0, %1 : tensor<?xf32, #sym.shape<[s0 floordiv 2]>>, tensor<i64>
  }
  // CHECK: func.func private @two({{.*}}) -> (tensor<?xf32, #sym.shape<[u0]>>, tensor<i64>)
  // CHECK: kernel.define "u0" = 2
  func.func private @two(%x: tensor<?xf32, #sym.shape<[s0]>>) -> (tensor<2xf32>, tensor<i64>) {
    %0 = torch.call "aten.slice.Tensor"(%x) args = [#sym.arg<0>, 0, 0, 2, 1] {node = "slice"} : (tensor<?xf32, #sym.shape<[s0]>>) -> tensor<2xf32>
    %1 = torch.number 7 : i64 -> tensor<i64>
    return %0, %1 : tensor<2xf32>, tensor<i64>
  }
}

// -----

// A number that changes from round to round has a symbol in the loop's graphs.
module attributes {sym.symbols = {u0 = {}, u1 = {}}} {
  // CHECK-LABEL: func.func @main
  // CHECK: %[[N:.*]] = kernel.while @go do @step
  // CHECK: kernel.define "u1" from %[[N]]
  func.func @main() -> tensor<i64> {
    %0 = torch.higher_order "while_loop"() args = [@go, @step, [0], []] {node = "while", defines = ["u1"], values = [#sym.expr<u1>]} : () -> tensor<i64>
    return %0 : tensor<i64>
  }
  // CHECK: func.func private @go(%[[N:.*]]: tensor<i64>
  // CHECK-NEXT: kernel.define "u0" from %[[N]]
  func.func private @go(%n: tensor<i64> {torch.value = #sym.expr<u0>}) -> tensor<i1> {
    %0 = torch.call "_operator.lt"() args = [#sym.expr<u0>, 5] {node = "lt"} : () -> tensor<i1>
    return %0 : tensor<i1>
  }
  // CHECK: func.func private @step(%[[N:.*]]: tensor<i64>
  // CHECK-NEXT: kernel.define "u0" from %[[N]]
  // CHECK: kernel.index () -> (u0 + 1)
  func.func private @step(%n: tensor<i64> {torch.value = #sym.expr<u0>}) -> tensor<i64> {
    %0 = torch.number #sym.expr<u0 + 1> -> tensor<i64>
    return %0 : tensor<i64>
  }
}
