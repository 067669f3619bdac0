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
