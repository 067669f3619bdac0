// RUN: kiln-opt %s --kernel-sink-constants --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --kernel-sink-constants --run-reference --split-input-file -o /dev/null

// A weight becomes one of the branch; the branch that does not use it loses its argument, too.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[P:.*]]: tensor<i1>, %[[X:.*]]: tensor<4xf32>)
// CHECK: kernel.cond %[[P]] : tensor<i1> then @t else @f(%[[X]]) : (tensor<4xf32>) -> tensor<4xf32>
func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %w = kernel.constant "w" dense<1.0> : tensor<4xf32> : tensor<4xf32>
  %y = kernel.cond %p : tensor<i1> then @t else @f (%w, %x)
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// CHECK: func.func private @t(%[[X:.*]]: tensor<4xf32>)
// CHECK: %[[W:.*]] = kernel.constant "w"
// CHECK: kernel.read %[[W]]
func.func private @t(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    %b = kernel.read %w (d0) -> (d0) : tensor<4xf32> -> f32
    %c = arith.addf %a, %b : f32
    kernel.yield %c : f32
  } : tensor<4xf32>
  return %y : tensor<4xf32>
}
// CHECK: func.func private @f(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: return %[[X]]
func.func private @f(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// Through two graphs, and a view of the constant with it; what is carried stays, and so does a buffer
// that the program writes and a map that is more than a number.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = kernel.constant "b" {kernel.mutated}
// CHECK: %[[V:.*]] = kernel.map {
// CHECK: %[[S:.*]] = kernel.map {
// CHECK-NEXT: kernel.read %arg0
// CHECK: kernel.while @go do @body(%[[V]]) with(%[[B]], %[[S]]) :
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = kernel.constant "w" dense<1.0> : tensor<2x2xf32> : tensor<2x2xf32>
  %b = kernel.constant "b" {kernel.mutated} dense<1.0> : tensor<4xf32> : tensor<4xf32>
  %v = kernel.map {
    %a = kernel.read %w (d0) -> (d0 floordiv 2, d0 mod 2) : tensor<2x2xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  %s = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    %c = math.exp %a : f32
    kernel.yield %c : f32
  } : tensor<4xf32>
  %one = kernel.map {
    %a = arith.constant 1.0 : f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  %y = kernel.while @go do @body (%v) with(%v, %b, %s, %one) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>)
  return %y : tensor<4xf32>
}
// CHECK: func.func private @go(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>)
func.func private @go(%x: tensor<4xf32>, %v: tensor<4xf32>, %b: tensor<4xf32>, %s: tensor<4xf32>,
                      %one: tensor<4xf32>) -> tensor<i1> {
  %c = kernel.constant dense<false> : tensor<i1> : tensor<i1>
  return %c : tensor<i1>
}
// CHECK: func.func private @body(%[[X:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>, %[[S:.*]]: tensor<4xf32>)
// CHECK: kernel.invoke @inner(%[[X]], %[[B]], %[[S]])
// CHECK: kernel.invoke @shared()
func.func private @body(%x: tensor<4xf32>, %v: tensor<4xf32>, %b: tensor<4xf32>, %s: tensor<4xf32>,
                        %one: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.invoke @inner(%x, %v, %b, %s, %one)
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = kernel.invoke @shared(%y, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
// CHECK: func.func private @inner(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>)
// CHECK: arith.constant 1.000000e+00
// CHECK: %[[W:.*]] = kernel.constant "w"
// CHECK: kernel.read %[[W]] (d0) -> (d0 floordiv 2, d0 mod 2)
func.func private @inner(%x: tensor<4xf32>, %v: tensor<4xf32>, %b: tensor<4xf32>, %s: tensor<4xf32>,
                         %one: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    %b1 = kernel.read %v (d0) -> (d0) : tensor<4xf32> -> f32
    %b2 = kernel.read %b (d0) -> (d0) : tensor<4xf32> -> f32
    %b3 = kernel.read %s (d0) -> (d0) : tensor<4xf32> -> f32
    %b4 = kernel.read %one (d0) -> (d0) : tensor<4xf32> -> f32
    %c = arith.addf %a, %b1 : f32
    %d = arith.addf %c, %b2 : f32
    %e = arith.addf %d, %b3 : f32
    %f = arith.addf %e, %b4 : f32
    kernel.yield %f : f32
  } : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @shared(%x: tensor<4xf32>, %v: tensor<4xf32>) -> tensor<4xf32> {
  return %v : tensor<4xf32>
}

// -----

// A graph with two callers keeps its arguments.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[A:.*]] = kernel.constant "a"
  %a = kernel.constant "a" dense<1.0> : tensor<4xf32> : tensor<4xf32>
  %b = kernel.constant "b" dense<1.0> : tensor<4xf32> : tensor<4xf32>
  // CHECK: kernel.invoke @twice(%{{.*}}, %[[A]])
  %0 = kernel.invoke @twice(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = kernel.invoke @twice(%x, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
func.func private @twice(%x: tensor<4xf32>, %v: tensor<4xf32>) -> tensor<4xf32> {
  return %v : tensor<4xf32>
}
