// RUN: kiln-opt %s --pass-pipeline='builtin.module(func.func(kernel-find-causal),canonicalize)' --split-input-file | FileCheck %s
// RUN: kiln-opt %s --pass-pipeline='builtin.module(run-reference,func.func(kernel-find-causal),canonicalize,run-reference)' --split-input-file -o /dev/null

// A padding mask stays, the comparison goes.
// CHECK-LABEL: func.func @padding
// CHECK: kernel.attention {{.*}} causal q
// CHECK: bias
// CHECK-NOT: arith.cmpi
// CHECK: %[[P:.*]] = kernel.read
// CHECK: arith.select %[[P]]
func.func @padding(%x: tensor<1x5x4xf32>, %z: tensor<1x6x4xf32>, %pad: tensor<6xi1>) -> tensor<1x5x4xf32> {
  %r = kernel.attention batch [1] m #sym.expr<5> n #sym.expr<6> d #sym.expr<4> dv #sym.expr<4> scale 5.000000e-01 q {
    %q = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<1x5x4xf32> -> f32
    kernel.yield %q : f32
  } k {
    %k = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<1x6x4xf32> -> f32
    kernel.yield %k : f32
  } v {
    %v = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<1x6x4xf32> -> f32
    kernel.yield %v : f32
  } bias {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (d1)
    %j = kernel.index (d0, d1, d2, d3, d4) -> (d2)
    %c = arith.cmpi sle, %j, %i : i64
    %p = kernel.read %pad (d0, d1, d2, d3, d4) -> (d2) : tensor<6xi1> -> i1
    %a = arith.andi %c, %p : i1
    %y = arith.select %a, %zero, %lowest : f32
    kernel.yield %y : f32
  } : tensor<1x5x4xf32>
  return %r : tensor<1x5x4xf32>
}

// -----

// Nothing is left of the bias.
// CHECK-LABEL: func.func @nothing_else
// CHECK: kernel.attention {{.*}} causal q
// CHECK-NOT: arith
// CHECK: } bias {
// CHECK-NEXT: }
func.func @nothing_else(%x: tensor<1x5x4xf32>, %z: tensor<1x6x4xf32>, %pad: tensor<6xi1>) -> tensor<1x5x4xf32> {
  %r = kernel.attention batch [1] m #sym.expr<5> n #sym.expr<6> d #sym.expr<4> dv #sym.expr<4> scale 5.000000e-01 q {
    %q = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<1x5x4xf32> -> f32
    kernel.yield %q : f32
  } k {
    %k = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<1x6x4xf32> -> f32
    kernel.yield %k : f32
  } v {
    %v = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<1x6x4xf32> -> f32
    kernel.yield %v : f32
  } bias {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (d1)
    %j = kernel.index (d0, d1, d2, d3, d4) -> (d2)
    %c = arith.cmpi sge, %i, %j : i64
    %y = arith.select %c, %zero, %lowest : f32
    kernel.yield %y : f32
  } : tensor<1x5x4xf32>
  return %r : tensor<1x5x4xf32>
}

// -----

// What is filled is after the query.
// CHECK-LABEL: func.func @filled
// CHECK: kernel.attention {{.*}} causal q
// CHECK-NOT: arith.cmpi
// CHECK: return
// CHECK-NOT: causal
func.func @filled(%x: tensor<1x5x4xf32>, %z: tensor<1x6x4xf32>, %pad: tensor<6xi1>) -> tensor<1x5x4xf32> {
  %r = kernel.attention batch [1] m #sym.expr<5> n #sym.expr<6> d #sym.expr<4> dv #sym.expr<4> scale 5.000000e-01 q {
    %q = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<1x5x4xf32> -> f32
    kernel.yield %q : f32
  } k {
    %k = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<1x6x4xf32> -> f32
    kernel.yield %k : f32
  } v {
    %v = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<1x6x4xf32> -> f32
    kernel.yield %v : f32
  } bias {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (d1)
    %j = kernel.index (d0, d1, d2, d3, d4) -> (d2)
    %c = arith.cmpi sgt, %j, %i : i64
    %p = kernel.read %pad (d0, d1, d2, d3, d4) -> (d2) : tensor<6xi1> -> i1
    %a = arith.ori %p, %c : i1
    %y = arith.select %a, %lowest, %zero : f32
    kernel.yield %y : f32
  } : tensor<1x5x4xf32>
  return %r : tensor<1x5x4xf32>
}

// -----

// A window of keys before the query: the other comparison stays.
// CHECK-LABEL: func.func @window
// CHECK: kernel.attention {{.*}} causal q
// CHECK-COUNT-1: arith.cmpi sgt
// CHECK-NOT: arith.cmpi
func.func @window(%x: tensor<1x5x4xf32>, %z: tensor<1x6x4xf32>, %pad: tensor<6xi1>) -> tensor<1x5x4xf32> {
  %r = kernel.attention batch [1] m #sym.expr<5> n #sym.expr<6> d #sym.expr<4> dv #sym.expr<4> scale 5.000000e-01 q {
    %q = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<1x5x4xf32> -> f32
    kernel.yield %q : f32
  } k {
    %k = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<1x6x4xf32> -> f32
    kernel.yield %k : f32
  } v {
    %v = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<1x6x4xf32> -> f32
    kernel.yield %v : f32
  } bias {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (d1)
    %j = kernel.index (d0, d1, d2, d3, d4) -> (d2)
    %b = kernel.index (d0, d1, d2, d3, d4) -> (d1 - 2)
    %w = arith.cmpi sgt, %j, %b : i64
    %c = arith.cmpi sle, %j, %i : i64
    %a = arith.andi %w, %c : i1
    %y = arith.select %a, %zero, %lowest : f32
    kernel.yield %y : f32
  } : tensor<1x5x4xf32>
  return %r : tensor<1x5x4xf32>
}

// -----

// The query's own key is hidden, too: the comparison stays.
// CHECK-LABEL: func.func @strictly_before
// CHECK: kernel.attention {{.*}} causal q
// CHECK: arith.cmpi slt
func.func @strictly_before(%x: tensor<1x5x4xf32>, %z: tensor<1x6x4xf32>, %pad: tensor<6xi1>) -> tensor<1x5x4xf32> {
  %r = kernel.attention batch [1] m #sym.expr<5> n #sym.expr<6> d #sym.expr<4> dv #sym.expr<4> scale 5.000000e-01 q {
    %q = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<1x5x4xf32> -> f32
    kernel.yield %q : f32
  } k {
    %k = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<1x6x4xf32> -> f32
    kernel.yield %k : f32
  } v {
    %v = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<1x6x4xf32> -> f32
    kernel.yield %v : f32
  } bias {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (d1)
    %j = kernel.index (d0, d1, d2, d3, d4) -> (d2)
    %c = arith.cmpi slt, %j, %i : i64
    %y = arith.select %c, %zero, %lowest : f32
    kernel.yield %y : f32
  } : tensor<1x5x4xf32>
  return %r : tensor<1x5x4xf32>
}

// -----

// The key after the query is seen.
// CHECK-LABEL: func.func @one_after
// CHECK-NOT: causal
// CHECK: arith.cmpi
func.func @one_after(%x: tensor<1x5x4xf32>, %z: tensor<1x6x4xf32>, %pad: tensor<6xi1>) -> tensor<1x5x4xf32> {
  %r = kernel.attention batch [1] m #sym.expr<5> n #sym.expr<6> d #sym.expr<4> dv #sym.expr<4> scale 5.000000e-01 q {
    %q = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<1x5x4xf32> -> f32
    kernel.yield %q : f32
  } k {
    %k = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<1x6x4xf32> -> f32
    kernel.yield %k : f32
  } v {
    %v = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<1x6x4xf32> -> f32
    kernel.yield %v : f32
  } bias {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (d1)
    %j = kernel.index (d0, d1, d2, d3, d4) -> (d2)
    %b = kernel.index (d0, d1, d2, d3, d4) -> (d1 + 1)
    %c = arith.cmpi sle, %j, %b : i64
    %y = arith.select %c, %zero, %lowest : f32
    kernel.yield %y : f32
  } : tensor<1x5x4xf32>
  return %r : tensor<1x5x4xf32>
}

// -----

// Padding shows keys after the query.
// CHECK-LABEL: func.func @either
// CHECK-NOT: causal
// CHECK: arith.cmpi
func.func @either(%x: tensor<1x5x4xf32>, %z: tensor<1x6x4xf32>, %pad: tensor<6xi1>) -> tensor<1x5x4xf32> {
  %r = kernel.attention batch [1] m #sym.expr<5> n #sym.expr<6> d #sym.expr<4> dv #sym.expr<4> scale 5.000000e-01 q {
    %q = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<1x5x4xf32> -> f32
    kernel.yield %q : f32
  } k {
    %k = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<1x6x4xf32> -> f32
    kernel.yield %k : f32
  } v {
    %v = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<1x6x4xf32> -> f32
    kernel.yield %v : f32
  } bias {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (d1)
    %j = kernel.index (d0, d1, d2, d3, d4) -> (d2)
    %c = arith.cmpi sle, %j, %i : i64
    %p = kernel.read %pad (d0, d1, d2, d3, d4) -> (d2) : tensor<6xi1> -> i1
    %a = arith.ori %c, %p : i1
    %y = arith.select %a, %zero, %lowest : f32
    kernel.yield %y : f32
  } : tensor<1x5x4xf32>
  return %r : tensor<1x5x4xf32>
}

// -----

// A large number is not -inf.
// CHECK-LABEL: func.func @large
// CHECK-NOT: causal
// CHECK: arith.cmpi
func.func @large(%x: tensor<1x5x4xf32>, %z: tensor<1x6x4xf32>, %pad: tensor<6xi1>) -> tensor<1x5x4xf32> {
  %r = kernel.attention batch [1] m #sym.expr<5> n #sym.expr<6> d #sym.expr<4> dv #sym.expr<4> scale 5.000000e-01 q {
    %q = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<1x5x4xf32> -> f32
    kernel.yield %q : f32
  } k {
    %k = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<1x6x4xf32> -> f32
    kernel.yield %k : f32
  } v {
    %v = kernel.read %z (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<1x6x4xf32> -> f32
    kernel.yield %v : f32
  } bias {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (d1)
    %j = kernel.index (d0, d1, d2, d3, d4) -> (d2)
    %large = arith.constant -1.0e+30 : f32
    %c = arith.cmpi sle, %j, %i : i64
    %y = arith.select %c, %zero, %large : f32
    kernel.yield %y : f32
  } : tensor<1x5x4xf32>
  return %r : tensor<1x5x4xf32>
}

// -----

// It is added to what is made of the scores.
// CHECK-LABEL: func.func @added
// CHECK: causal
func.func @added(%x: tensor<1x5x4xf32>) -> tensor<1x5x4xf32> {
  %r = kernel.attention batch [1] m #sym.expr<5> n #sym.expr<5> d #sym.expr<4> dv #sym.expr<4> scale 5.000000e-01 q {
    %q = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<1x5x4xf32> -> f32
    kernel.yield %q : f32
  } k {
    %k = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<1x5x4xf32> -> f32
    kernel.yield %k : f32
  } v {
    %v = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<1x5x4xf32> -> f32
    kernel.yield %v : f32
  } bias {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (d1)
    %j = kernel.index (d0, d1, d2, d3, d4) -> (d2)
    %c = arith.cmpi sle, %j, %i : i64
    %y = arith.select %c, %zero, %lowest : f32
    kernel.yield %y : f32
  } score {
  ^bb0(%p: f32, %b: f32):
    %t = math.tanh %p : f32
    %s = arith.addf %t, %b : f32
    kernel.yield %s : f32
  } : tensor<1x5x4xf32>
  return %r : tensor<1x5x4xf32>
}

// -----

// It is not: what is made of the scores where it is -inf is a number.
// CHECK-LABEL: func.func @combined
// CHECK-NOT: causal
// CHECK: arith.cmpi
func.func @combined(%x: tensor<1x5x4xf32>) -> tensor<1x5x4xf32> {
  %r = kernel.attention batch [1] m #sym.expr<5> n #sym.expr<5> d #sym.expr<4> dv #sym.expr<4> scale 5.000000e-01 q {
    %q = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<1x5x4xf32> -> f32
    kernel.yield %q : f32
  } k {
    %k = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<1x5x4xf32> -> f32
    kernel.yield %k : f32
  } v {
    %v = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<1x5x4xf32> -> f32
    kernel.yield %v : f32
  } bias {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (d1)
    %j = kernel.index (d0, d1, d2, d3, d4) -> (d2)
    %c = arith.cmpi sle, %j, %i : i64
    %y = arith.select %c, %zero, %lowest : f32
    kernel.yield %y : f32
  } score {
  ^bb0(%p: f32, %b: f32):
    %t = math.tanh %p : f32
    %s = arith.maximumf %t, %b : f32
    kernel.yield %s : f32
  } : tensor<1x5x4xf32>
  return %r : tensor<1x5x4xf32>
}
