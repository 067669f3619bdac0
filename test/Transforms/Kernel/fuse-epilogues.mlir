// RUN: kiln-opt %s --kernel-fuse-epilogues --kernel-simplify-indices --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --kernel-fuse-epilogues --kernel-simplify-indices --run-reference --split-input-file -o /dev/null

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

// -----

// Attention writes its result in the order that its only user would, and in none in which features do not come last; what two
// read stays.
// CHECK-LABEL: func.func @ordered
// CHECK: %[[O:.*]] = kernel.attention batch [2, 4]
// CHECK-NOT: perm
// CHECK-NOT: kernel.map
// CHECK: return %[[O]] : tensor<2x4x100x64xf32>
func.func @ordered(%x: tensor<2x4x100x64xf32>) -> tensor<2x4x100x64xf32> {
  %o = kernel.attention batch [2, 4] m <100> n <100> d <64> dv <64> scale 0.125 perm [0, 2, 1, 3] q {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4) : tensor<2x4x100x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d4) : tensor<2x4x100x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d5) : tensor<2x4x100x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x100x4x64xf32>
  %y = kernel.map {
    %a = kernel.read %o (d0, d1, d2, d3) -> (d0, d2, d1, d3) : tensor<2x100x4x64xf32> -> f32
    kernel.yield %a : f32
  } : tensor<2x4x100x64xf32>
  return %y : tensor<2x4x100x64xf32>
}
// CHECK-LABEL: func.func @rows_first
// CHECK: kernel.attention {{.*}} perm [2, 0, 1, 3]
// CHECK-NOT: kernel.map
// CHECK: return
func.func @rows_first(%x: tensor<2x4x100x64xf32>) -> tensor<100x2x4x64xf32> {
  %o = kernel.attention batch [2, 4] m <100> n <100> d <64> dv <64> scale 0.125 perm [0, 2, 1, 3] q {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4) : tensor<2x4x100x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d4) : tensor<2x4x100x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d5) : tensor<2x4x100x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x100x4x64xf32>
  %y = kernel.map {
    %a = kernel.read %o (d0, d1, d2, d3) -> (d1, d0, d2, d3) : tensor<2x100x4x64xf32> -> f32
    kernel.yield %a : f32
  } : tensor<100x2x4x64xf32>
  return %y : tensor<100x2x4x64xf32>
}
// CHECK-LABEL: func.func @features_first
// CHECK: kernel.attention {{.*}} perm [0, 2, 1, 3]
// CHECK: kernel.map
func.func @features_first(%x: tensor<2x4x100x64xf32>) -> tensor<2x64x4x100xf32> {
  %o = kernel.attention batch [2, 4] m <100> n <100> d <64> dv <64> scale 0.125 perm [0, 2, 1, 3] q {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4) : tensor<2x4x100x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d4) : tensor<2x4x100x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d5) : tensor<2x4x100x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x100x4x64xf32>
  %y = kernel.map {
    %a = kernel.read %o (d0, d1, d2, d3) -> (d0, d3, d2, d1) : tensor<2x100x4x64xf32> -> f32
    kernel.yield %a : f32
  } : tensor<2x64x4x100xf32>
  return %y : tensor<2x64x4x100xf32>
}
// CHECK-LABEL: func.func @both
// CHECK: kernel.attention {{.*}} perm [0, 2, 1, 3]
// CHECK: kernel.map
func.func @both(%x: tensor<2x4x100x64xf32>) -> (tensor<2x4x100x64xf32>, tensor<2x100x4x64xf32>) {
  %o = kernel.attention batch [2, 4] m <100> n <100> d <64> dv <64> scale 0.125 perm [0, 2, 1, 3] q {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4) : tensor<2x4x100x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d4) : tensor<2x4x100x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d5) : tensor<2x4x100x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x100x4x64xf32>
  %y = kernel.map {
    %a = kernel.read %o (d0, d1, d2, d3) -> (d0, d2, d1, d3) : tensor<2x100x4x64xf32> -> f32
    kernel.yield %a : f32
  } : tensor<2x4x100x64xf32>
  return %y, %o : tensor<2x4x100x64xf32>, tensor<2x100x4x64xf32>
}

// -----

// The only row may be read as such: the result is the product's, and nothing is left to copy.
// CHECK-LABEL: func.func @one_row
// CHECK: %[[C:.*]] = kernel.contract
// CHECK-NOT: kernel.map
// CHECK: return %[[C]]
func.func @one_row(%x: tensor<1x32xf32>, %w: tensor<8x32xf32>) -> tensor<1x8xf32> {
  %c = kernel.contract batch [] m [1] n [8] k [32] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x32xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<8x32xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x8xf32>
  %y = kernel.map {
    %e = kernel.read %c (d0, d1) -> (0, d1) : tensor<1x8xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}

// -----

// A product's regions are computed in vectors, without complex numbers.
// CHECK-LABEL: func.func @complex
// CHECK: kernel.contract
// CHECK: kernel.map
// CHECK: complex.create
func.func @complex(%x: tensor<4x32xf32>, %w: tensor<8x32xf32>) -> tensor<4x8xcomplex<f32>> {
  %c = kernel.contract batch [] m [4] n [8] k [32] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4x32xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<8x32xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<4x8xf32>
  %y = kernel.map {
    %e = kernel.read %c (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
    %z = complex.create %e, %e : complex<f32>
    kernel.yield %z : complex<f32>
  } : tensor<4x8xcomplex<f32>>
  return %y : tensor<4x8xcomplex<f32>>
}
