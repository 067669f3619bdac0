// RUN: kiln-opt %s --kernel-propagate-layouts | FileCheck %s
// RUN: kiln-opt %s --run-reference --kernel-propagate-layouts --run-reference -o /dev/null

// Channels-last data read in channels-first order: the pooled result is channels-last too, and so is
// what is computed from it.
// CHECK-LABEL: func.func @pool
// CHECK-SAME: %[[X:.*]]: tensor<1x8x8x64xf32>
// CHECK: %[[P:.*]] = kernel.map
// CHECK: kernel.read %[[X]] (d0, d1, d2, d3, d4, d5) -> (d0, 2*d1 + d4, 2*d2 + d5, d3)
// CHECK: } : tensor<1x4x4x64xf32>
// CHECK: kernel.map
// CHECK: kernel.read %[[P]] (d0, d1, d2, d3) -> (d0, d1, d2, d3)
// CHECK: } : tensor<1x4x4x64xf32>
func.func @pool(%x: tensor<1x8x8x64xf32>) -> tensor<1x64x4x4xf32> {
  %p = kernel.map {
    %zero = arith.constant 0.0 : f32
    %r = kernel.reduce [2, 2] init(%zero : f32) {
      %e = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, 2*d2 + d4, 2*d3 + d5, d1) : tensor<1x8x8x64xf32> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %r : f32
  } : tensor<1x64x4x4xf32>
  %y = kernel.map {
    %e = kernel.read %p (d0, d1, d2, d3) -> (d0, d1, d2, d3) : tensor<1x64x4x4xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<1x64x4x4xf32>
  return %y : tensor<1x64x4x4xf32>
}

// -----

// A row and a column that are computed from one dim each, as those of an interpolation, walk along it,
// also through a view that has joined the two.
// CHECK-LABEL: func.func @gather
// CHECK-SAME: %[[X:.*]]: tensor<1x64x16xf32>
// CHECK: %[[Y:.*]] = kernel.map
// CHECK: %[[R:.*]] = arith.minsi
// CHECK: %[[C:.*]] = arith.minsi
// CHECK: kernel.read %[[X]] (d0, d1, d2, d3, d4, d5) -> (0, 8*d4 + d5, d3) values(%[[R]], %[[C]])
// CHECK: } : tensor<1x16x16x16xf32>
func.func @gather(%x: tensor<1x64x16xf32>) -> tensor<1x16x16x16xf32> {
  %y = kernel.map {
    %last = arith.constant 7 : i64
    %i = kernel.index (d0, d1, d2, d3) -> (d2)
    %row = arith.minsi %i, %last : i64
    %j = kernel.index (d0, d1, d2, d3) -> (d3)
    %column = arith.minsi %j, %last : i64
    %e = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (0, 8*d4 + d5, d1) values(%row, %column) : tensor<1x64x16xf32> -> f32
    kernel.yield %e : f32
  } : tensor<1x16x16x16xf32>
  return %y : tensor<1x16x16x16xf32>
}

// -----

// A place that several dims decide may be anywhere.
// CHECK-LABEL: func.func @anywhere
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d2, d0) values
// CHECK: } : tensor<8x4xf32>
func.func @anywhere(%x: tensor<16x8xf32>) -> tensor<8x4xf32> {
  %y = kernel.map {
    %place = kernel.index (d0, d1) -> (d0 + d1)
    %e = kernel.read %x (d0, d1, d2) -> (d2, d0) values(%place) : tensor<16x8xf32> -> f32
    kernel.yield %e : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

// The kernels that have folded constants are as they were run.
// CHECK-LABEL: kernel.func @fold
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d1, d0)
// CHECK: } : tensor<64x32xi8>
kernel.func @fold(%w: tensor<32x64xi8>) -> tensor<64x32xi8> {
  %0 = kernel.map {
    %a = kernel.read %w (d0, d1) -> (d1, d0) : tensor<32x64xi8> -> i8
    %b = arith.addi %a, %a : i8
    kernel.yield %b : i8
  } : tensor<64x32xi8>
  kernel.return %0 : tensor<64x32xi8>
}

// -----

// What attention adds to its scores stays as it is, a head at a time, although all that it is made of has the heads last.
// CHECK-LABEL: func.func @bias
// CHECK: kernel.map
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d0, d2, d3, d1)
// CHECK: } : tensor<1x8x5x6xf32>
func.func @bias(%x: tensor<1x8x5x4xf32>, %z: tensor<1x8x6x4xf32>, %heads: tensor<1x5x6x8xf32>) -> tensor<1x8x5x4xf32> {
  %b = kernel.map {
    %e = kernel.read %heads (d0, d1, d2, d3) -> (d0, d2, d3, d1) : tensor<1x5x6x8xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<1x8x5x6xf32>
  %r = kernel.attention batch [1, 8] m #sym.expr<5> n #sym.expr<6> d #sym.expr<4> dv #sym.expr<4> scale 5.000000e-01 q {
    %q = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4) : tensor<1x8x5x4xf32> -> f32
    kernel.yield %q : f32
  } k {
    %k = kernel.read %z (d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d4) : tensor<1x8x6x4xf32> -> f32
    kernel.yield %k : f32
  } v {
    %v = kernel.read %z (d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d5) : tensor<1x8x6x4xf32> -> f32
    kernel.yield %v : f32
  } bias {
    %y = kernel.read %b (d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3) : tensor<1x8x5x6xf32> -> f32
    kernel.yield %y : f32
  } : tensor<1x8x5x4xf32>
  return %r : tensor<1x8x5x4xf32>
}
