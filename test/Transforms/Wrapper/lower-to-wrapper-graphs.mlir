// RUN: kiln-opt %s --kernel-lower-to-wrapper --split-input-file | FileCheck %s

// Nested graphs: what a call gives is computed in the caller's memory where it is returned; a graph
// copies what it does not compute; loops have a second buffer for each carried value, and a flag.
kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}
// CHECK: wrapper.func private @f(%[[X:.*]]: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[4], [1], f32> {
// CHECK: %[[Y:.*]] = wrapper.output 0
// CHECK: wrapper.launch @k ins(%[[X]] : {{.*}}) outs(%[[Y]] :
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.call @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// CHECK: wrapper.func private @same(%[[X:.*]]: !wrapper.buffer<[4], [1], f32>)
// CHECK: %[[Y:.*]] = wrapper.output 0
// CHECK: wrapper.copy %[[X]] to %[[Y]]
func.func private @same(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
// CHECK: wrapper.func private @go(%{{.*}}: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[1], [1], i1>
func.func private @go(%x: tensor<4xf32>) -> tensor<1xi1> {
  %c = kernel.constant dense<false> : tensor<1xi1> : tensor<1xi1>
  return %c : tensor<1xi1>
}
// CHECK: wrapper.func private @step(%{{.*}}: !wrapper.buffer<[4], [1], f32>, %{{.*}}: !wrapper.buffer<[], [], f32>)
func.func private @step(%c: tensor<4xf32>, %x: tensor<f32>) -> (tensor<4xf32>, tensor<f32>) {
  return %c, %x : tensor<4xf32>, tensor<f32>
}
// CHECK: wrapper.program @main(
// CHECK-SAME: %[[P:[^:]*]]: !wrapper.buffer<[], [], i1> {wrapper.name = "p"}, %[[X:[^:]*]]: !wrapper.buffer<[4], [1], f32>
func.func @main(%p: tensor<i1> {torch.name = "p"}, %x: tensor<4xf32> {torch.name = "x"})
    -> (tensor<4xf32> {torch.name = "a"}, tensor<4xf32> {torch.name = "b"}) {
  // CHECK: %[[A:.*]] = wrapper.output 0
  // CHECK: wrapper.if %[[P]] : {{.*}} then @f else @same ins(%[[X]] : {{.*}}) outs(%[[A]] :
  %a = kernel.cond %p : tensor<i1> then @f else @same (%x) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %[[B:.*]] = wrapper.alloc : <[4], [1], f32>
  // CHECK: wrapper.call @f ins(%[[A]] : {{.*}}) outs(%[[B]] :
  %b = kernel.invoke @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-DAG: %[[C:.*]] = wrapper.output 1
  // CHECK-DAG: %[[SPARE:.*]] = wrapper.alloc : <[4], [1], f32>
  // CHECK-DAG: %[[FLAG:.*]] = wrapper.alloc : <[1], [1], i1>
  // CHECK: wrapper.while @go do @f carried(%[[B]] : {{.*}}) ins() outs(%[[C]] : {{.*}}) spare(%[[SPARE]] : {{.*}}) flag(%[[FLAG]] :
  %c = kernel.while @go do @f (%b) with() : (tensor<4xf32>) -> (tensor<4xf32>)
  // CHECK: wrapper.for @step length 4 carried(%[[B]] : {{.*}}) slices(%[[X]] : {{.*}}) ins() outs(%{{.*}}, %{{.*}} : {{.*}}) spare(%{{.*}} :
  %d:2 = kernel.for @step length 4 (%b) over(%x) with() : (tensor<4xf32>, tensor<4xf32>)
      -> (tensor<4xf32>, tensor<4xf32>)
  return %a, %c : tensor<4xf32>, tensor<4xf32>
}

// -----

// A result whose size a graph finds out is memory of its own, which the caller copies.
module attributes {sym.symbols = {u0 = {min = 0}, u1 = {min = 0}}} {
  kernel.func @k() -> tensor<?xf32, #sym.shape<[u0]>> {
    %y = kernel.map {
      %a = arith.constant 1.0 : f32
      kernel.yield %a : f32
    } : tensor<?xf32, #sym.shape<[u0]>>
    kernel.return %y : tensor<?xf32, #sym.shape<[u0]>>
  }
  // CHECK: wrapper.func private @f({{.*}}) -> (!wrapper.buffer<[u0], [1], f32> {wrapper.given}, !wrapper.buffer<[], [], i64>)
  // CHECK: wrapper.define "u0" from %arg0
  // CHECK: %[[Y:.*]] = wrapper.alloc : <[u0], [1], f32>
  // CHECK: wrapper.launch @k ins() outs(%[[Y]] :
  // CHECK: wrapper.give %[[Y]] as 0
  // CHECK: wrapper.output 1
  func.func private @f(%n: tensor<i64>) -> (tensor<?xf32, #sym.shape<[u0]>>, tensor<i64>) {
    kernel.define "u0" from %n : tensor<i64>
    %y = kernel.call @k() : () -> tensor<?xf32, #sym.shape<[u0]>>
    return %y, %n : tensor<?xf32, #sym.shape<[u0]>>, tensor<i64>
  }
  // Through another graph, with a copy.
  // CHECK: wrapper.func private @g({{.*}}) -> (!wrapper.buffer<[u0], [1], f32> {wrapper.given})
  // CHECK: %[[N:.*]] = wrapper.alloc : <[], [], i64>
  // CHECK: %[[GIVEN:.*]] = wrapper.call @f ins(%{{.*}}) outs(%[[N]] : {{.*}}) gives(
  // CHECK: %[[Y:.*]] = wrapper.alloc : <[u0], [1], f32>
  // CHECK: wrapper.copy %[[GIVEN]] to %[[Y]]
  // CHECK: wrapper.give %[[Y]] as 0
  func.func private @g(%n: tensor<i64>) -> tensor<?xf32, #sym.shape<[u0]>> {
    %y:2 = kernel.invoke @f(%n) : (tensor<i64>) -> (tensor<?xf32, #sym.shape<[u0]>>, tensor<i64>)
    return %y#0 : tensor<?xf32, #sym.shape<[u0]>>
  }
  // CHECK: wrapper.program @main
  // CHECK: %[[GIVEN:.*]] = wrapper.if %arg0 {{.*}} then @g else @g ins(%arg1 : {{.*}}) outs() gives(
  // CHECK-NEXT: %[[OUT:.*]] = wrapper.output 0
  // CHECK-NEXT: wrapper.copy %[[GIVEN]] to %[[OUT]]
  func.func @main(%p: tensor<i1> {torch.name = "p"}, %n: tensor<i64> {torch.name = "n"})
      -> (tensor<?xf32, #sym.shape<[u0]>> {torch.name = "y"}) {
    %y = kernel.cond %p : tensor<i1> then @g else @g(%n) : (tensor<i64>) -> tensor<?xf32, #sym.shape<[u0]>>
    return %y : tensor<?xf32, #sym.shape<[u0]>>
  }
}
