// RUN: kiln-opt %s --canonicalize --split-input-file | FileCheck %s
// RUN: kiln-opt %s --pass-pipeline='builtin.module(run-reference,canonicalize,run-reference)' --split-input-file -o /dev/null

// A mask that hides nothing, once its condition is known.
// CHECK-LABEL: func.func @zero
// CHECK: } bias {
// CHECK-NEXT: } : tensor<1x5x4xf32>
func.func @zero(%x: tensor<1x5x4xf32>) -> tensor<1x5x4xf32> {
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
    %zero = arith.constant -0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %true = arith.constant true
    %y = arith.select %true, %zero, %lowest : f32
    kernel.yield %y : f32
  } : tensor<1x5x4xf32>
  return %r : tensor<1x5x4xf32>
}

// -----

// One that hides everything stays: a row is 0 then.
// CHECK-LABEL: func.func @lowest
// CHECK: } bias {
// CHECK: kernel.yield %{{.*}} : f32
func.func @lowest(%x: tensor<1x5x4xf32>) -> tensor<1x5x4xf32> {
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
    %lowest = arith.constant 0xFF800000 : f32
    kernel.yield %lowest : f32
  } : tensor<1x5x4xf32>
  return %r : tensor<1x5x4xf32>
}

// -----

// Where scores are made of it, it is minus zero, and no longer an argument.
// CHECK-LABEL: func.func @score
// CHECK: } bias {
// CHECK-NEXT: } score {
// CHECK-NEXT: ^bb0(%[[PRODUCT:.*]]: f32):
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant -0.000000e+00 : f32
// CHECK-NEXT: %[[POWER:.*]] = math.exp %[[PRODUCT]] : f32
// CHECK-NEXT: arith.maximumf %[[POWER]], %[[ZERO]] : f32
func.func @score(%x: tensor<1x5x4xf32>) -> tensor<1x5x4xf32> {
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
    kernel.yield %zero : f32
  } score {
  ^bb0(%p: f32, %b: f32):
    %e = math.exp %p : f32
    %s = arith.maximumf %e, %b : f32
    kernel.yield %s : f32
  } : tensor<1x5x4xf32>
  return %r : tensor<1x5x4xf32>
}
