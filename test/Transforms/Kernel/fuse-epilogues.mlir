// RUN: kiln-opt %s --kernel-fuse-epilogues --kernel-simplify-indices --split-input-file | FileCheck %s

// Bias and activation are computed on the accumulators, through a reshape.
// CHECK-LABEL: func.func @linear_gelu
// CHECK-SAME: , %[[B:[a-z0-9]+]]: tensor<12x64xf32>
// CHECK: epilogue {
// CHECK: ^bb0(%[[SUM:.*]]: f32):
// CHECK: %[[BIAS:.*]] = kernel.read %[[B]] (d0, d1, d2) -> (d1 floordiv 64, d1 mod 64)
// CHECK: %[[S:.*]] = arith.addf %[[SUM]], %[[BIAS]]
// CHECK: %[[T:.*]] = math.tanh %[[S]]
// CHECK: kernel.yield %[[T]]
// CHECK: kernel.map
// CHECK-NEXT: kernel.read %{{.*}} (d0, d1, d2) -> (d0, 64*d1 + d2)
func.func @linear_gelu(%x: tensor<128x32xf32>, %w: tensor<768x32xf32>, %b: tensor<12x64xf32>) -> tensor<128x12x64xf32> {
  %c = kernel.contract batch [] m [128] n [768] k [32] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x32xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<768x32xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<128x768xf32>
  %y = kernel.map {
    %e = kernel.read %c (d0, d1, d2) -> (d0, 64*d1 + d2) : tensor<128x768xf32> -> f32
    %bias = kernel.read %b (d0, d1, d2) -> (d1, d2) : tensor<12x64xf32> -> f32
    %s = arith.addf %e, %bias : f32
    %t = math.tanh %s : f32
    kernel.yield %t : f32
  } : tensor<128x12x64xf32>
  return %y : tensor<128x12x64xf32>
}

// -----

// A user that shifts what it reads is no epilogue.
// CHECK-LABEL: func.func @shifted
// CHECK: kernel.contract
// CHECK: kernel.map
func.func @shifted(%x: tensor<8x32xf32>, %w: tensor<16x32xf32>) -> tensor<7x16xf32> {
  %c = kernel.contract batch [] m [8] n [16] k [32] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x32xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<16x32xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<8x16xf32>
  %y = kernel.map {
    %e = kernel.read %c (d0, d1) -> (d0 + 1, d1) : tensor<8x16xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<7x16xf32>
  return %y : tensor<7x16xf32>
}
