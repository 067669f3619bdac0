// RUN: kiln-opt %s --kernel-batch-loops --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --kernel-batch-loops --run-reference --split-input-file -o /dev/null

// A map gets the round as its first dim; what is the same in all rounds is computed once; what does
// not depend on the round is repeated.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[XS:.*]]: tensor<?x4xf32, #sym.shape<[s0, 4]>>, %[[W:.*]]: tensor<4xf32>)
func.func @main(%xs: tensor<?x4xf32, #sym.shape<[s0, 4]>>, %w: tensor<4xf32>)
    -> (tensor<?xf32, #sym.shape<[s0]>>, tensor<?x4xf32, #sym.shape<[s0, 4]>>, tensor<?x4xf32, #sym.shape<[s0, 4]>>) {
  // CHECK: %[[C:.*]] = kernel.constant "c"
  // CHECK: %[[E:.*]] = kernel.map {
  // CHECK: kernel.read %[[W]] (d0) -> (d0)
  // CHECK: } : tensor<4xf32>
  // CHECK: %[[R:.*]] = kernel.map {
  // CHECK: kernel.reduce [4]
  // CHECK: kernel.read %[[XS]] (d0, d1) -> (d0, d1)
  // CHECK: kernel.read %[[E]] (d0, d1) -> (d1)
  // CHECK: kernel.read %[[C]] (d0, d1) -> (d1)
  // CHECK: } : tensor<?xf32, #sym.shape<[s0]>>
  // CHECK: %[[V:.*]] = kernel.map {
  // CHECK-NEXT: kernel.read %[[E]] (d0, d1) -> (d1)
  // CHECK: return %[[R]], %[[XS]], %[[V]]
  %r:3 = kernel.for @body length s0 () over(%xs) with(%w) : (tensor<?x4xf32, #sym.shape<[s0, 4]>>, tensor<4xf32>)
      -> (tensor<?xf32, #sym.shape<[s0]>>, tensor<?x4xf32, #sym.shape<[s0, 4]>>, tensor<?x4xf32, #sym.shape<[s0, 4]>>)
  return %r#0, %r#1, %r#2 : tensor<?xf32, #sym.shape<[s0]>>, tensor<?x4xf32, #sym.shape<[s0, 4]>>, tensor<?x4xf32, #sym.shape<[s0, 4]>>
}
// CHECK-NOT: func.func private
func.func private @body(%x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>, tensor<4xf32>) {
  %c = kernel.constant "c" dense<1.0> : tensor<4xf32> : tensor<4xf32>
  %e = kernel.map {
    %a = kernel.read %w (d0) -> (d0) : tensor<4xf32> -> f32
    %b = math.exp %a : f32
    kernel.yield %b : f32
  } : tensor<4xf32>
  %r = kernel.map {
    %zero = arith.constant 0.0 : f32
    %sum = kernel.reduce [4] init(%zero : f32) {
      %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
      %b = kernel.read %e (d0) -> (d0) : tensor<4xf32> -> f32
      %d = kernel.read %c (d0) -> (d0) : tensor<4xf32> -> f32
      %f = arith.mulf %a, %b : f32
      %g = arith.mulf %f, %d : f32
      kernel.yield %g : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      kernel.yield %s : f32
    } : f32
    kernel.yield %sum : f32
  } : tensor<f32>
  return %r, %x, %e : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A contract: rows where the weights are shared, columns where the left operand is, a batch where
// both differ. An inner loop goes with it.
// CHECK-LABEL: func.func @contracts
// CHECK: %[[A:.*]] = kernel.contract batch [] m [6, 2] n [5] k [3] lhs
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d0, d1, d3)
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d2, d3)
// CHECK: : tensor<6x2x5xf32>
// CHECK: %[[B:.*]] = kernel.contract batch [] m [5] n [6, 2] k [3] perm [1, 0, 2]
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d0, d3)
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d1, d2, d3)
// CHECK: : tensor<6x5x2xf32>
// CHECK: %[[C:.*]] = kernel.contract batch [6] m [2] n [2] k [3] lhs
// CHECK: : tensor<6x2x2xf32>
// CHECK: return %[[A]], %[[B]], %[[C]]
func.func @contracts(%xs: tensor<6x2x3xf32>, %w: tensor<5x3xf32>) -> (tensor<6x2x5xf32>, tensor<6x5x2xf32>, tensor<6x2x2xf32>) {
  %r:3 = kernel.for @outer length 6 () over(%xs) with(%w) : (tensor<6x2x3xf32>, tensor<5x3xf32>)
      -> (tensor<6x2x5xf32>, tensor<6x5x2xf32>, tensor<6x2x2xf32>)
  return %r#0, %r#1, %r#2 : tensor<6x2x5xf32>, tensor<6x5x2xf32>, tensor<6x2x2xf32>
}
func.func private @outer(%x: tensor<2x3xf32>, %w: tensor<5x3xf32>) -> (tensor<2x5xf32>, tensor<5x2xf32>, tensor<2x2xf32>) {
  %a = kernel.contract batch [] m [2] n [5] k [3] lhs {
    %l = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2x3xf32> -> f32
    kernel.yield %l : f32
  } rhs {
    %l = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<5x3xf32> -> f32
    kernel.yield %l : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<2x5xf32>
  %b = kernel.contract batch [] m [5] n [2] k [3] lhs {
    %l = kernel.read %w (d0, d1, d2) -> (d0, d2) : tensor<5x3xf32> -> f32
    kernel.yield %l : f32
  } rhs {
    %l = kernel.read %x (d0, d1, d2) -> (d1, d2) : tensor<2x3xf32> -> f32
    kernel.yield %l : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<5x2xf32>
  %c = kernel.contract batch [] m [2] n [2] k [3] lhs {
    %l = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2x3xf32> -> f32
    kernel.yield %l : f32
  } rhs {
    %l = kernel.read %x (d0, d1, d2) -> (d1, d2) : tensor<2x3xf32> -> f32
    kernel.yield %l : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<2x2xf32>
  return %a, %b, %c : tensor<2x5xf32>, tensor<5x2xf32>, tensor<2x2xf32>
}

// -----

// Rounds that depend on one another, that do more than compute, or that are large stay.
// CHECK-LABEL: func.func @stay
// CHECK: kernel.for @carries
// CHECK: kernel.for @branches
// CHECK: kernel.for @large
func.func @stay(%c: tensor<f32>, %xs: tensor<4xf32>, %large: tensor<4x20000xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4x20000xf32>) {
  %a:2 = kernel.for @carries length 4 (%c) over(%xs) with() : (tensor<f32>, tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>)
  %b = kernel.for @branches length 4 () over(%xs) with(%c) : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>)
  %d = kernel.for @large length 4 () over(%large) with() : (tensor<4x20000xf32>) -> (tensor<4x20000xf32>)
  return %a#1, %b, %d : tensor<4xf32>, tensor<4xf32>, tensor<4x20000xf32>
}
func.func private @carries(%c: tensor<f32>, %x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  return %x, %c : tensor<f32>, tensor<f32>
}
func.func private @branches(%x: tensor<f32>, %c: tensor<f32>) -> tensor<f32> {
  %y = kernel.cond when s0 then @f else @f (%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
func.func private @large(%x: tensor<20000xf32>) -> tensor<20000xf32> {
  %r = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<20000xf32> -> f32
    kernel.yield %a : f32
  } : tensor<20000xf32>
  return %r : tensor<20000xf32>
}

// -----

// Attention: the rounds are the first dim of its batch, and of its result whatever order the others have.
// CHECK-LABEL: func.func @attentions
// CHECK: %[[A:.*]] = kernel.attention batch [6] m <3> n <3> d <2> dv <2> scale 5.000000e-01 causal perm [0, 2, 1] q {
// CHECK-NEXT: kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<6x3x2xf32> -> f32
// CHECK: } k {
// CHECK-NEXT: kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (d2, d3) : tensor<3x2xf32> -> f32
// CHECK: } v {
// CHECK-NEXT: kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<6x3x2xf32> -> f32
// CHECK: } bias {
// CHECK-NEXT: kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (d1, d2) : tensor<3x3xf32> -> f32
// CHECK: } : tensor<6x2x3xf32>
// CHECK: %[[B:.*]] = kernel.attention batch [6] m <3> n <3> d <2> dv <2> scale 1.000000e+00 q {
// CHECK: } : tensor<6x3x2xf32>
// CHECK: return %[[A]], %[[B]]
func.func @attentions(%q: tensor<6x3x2xf32>, %k: tensor<3x2xf32>, %bias: tensor<3x3xf32>) -> (tensor<6x2x3xf32>, tensor<6x3x2xf32>) {
  %r:2 = kernel.for @attend length 6 () over(%q) with(%k, %bias) : (tensor<6x3x2xf32>, tensor<3x2xf32>, tensor<3x3xf32>)
      -> (tensor<6x2x3xf32>, tensor<6x3x2xf32>)
  return %r#0, %r#1 : tensor<6x2x3xf32>, tensor<6x3x2xf32>
}
func.func private @attend(%q: tensor<3x2xf32>, %k: tensor<3x2xf32>, %bias: tensor<3x3xf32>) -> (tensor<2x3xf32>, tensor<3x2xf32>) {
  %a = kernel.attention batch [] m <3> n <3> d <2> dv <2> scale 0.5 causal perm [1, 0] q {
    %x = kernel.read %q (d0, d1, d2, d3) -> (d0, d2) : tensor<3x2xf32> -> f32
    kernel.yield %x : f32
  } k {
    %x = kernel.read %k (d0, d1, d2, d3) -> (d1, d2) : tensor<3x2xf32> -> f32
    kernel.yield %x : f32
  } v {
    %x = kernel.read %q (d0, d1, d2, d3) -> (d1, d3) : tensor<3x2xf32> -> f32
    kernel.yield %x : f32
  } bias {
    %x = kernel.read %bias (d0, d1, d2, d3) -> (d0, d1) : tensor<3x3xf32> -> f32
    kernel.yield %x : f32
  } : tensor<2x3xf32>
  %b = kernel.attention batch [] m <3> n <3> d <2> dv <2> scale 1.0 q {
    %x = kernel.read %q (d0, d1, d2, d3) -> (d0, d2) : tensor<3x2xf32> -> f32
    kernel.yield %x : f32
  } k {
    %x = kernel.read %k (d0, d1, d2, d3) -> (d1, d2) : tensor<3x2xf32> -> f32
    kernel.yield %x : f32
  } v {
    %x = kernel.read %k (d0, d1, d2, d3) -> (d1, d3) : tensor<3x2xf32> -> f32
    kernel.yield %x : f32
  } bias {
  } : tensor<3x2xf32>
  return %a, %b : tensor<2x3xf32>, tensor<3x2xf32>
}
