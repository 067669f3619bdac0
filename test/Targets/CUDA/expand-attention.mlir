// RUN: kiln-opt %s --cuda-expand-attention --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --cuda-expand-attention --run-reference --split-input-file -o /dev/null

// Heads that share keys and values, a bias, an order of the result, a number of tokens that only the run knows: what the regions read stays.
// CHECK-LABEL: func.func @wide
// CHECK-NOT: kernel.attention
// CHECK: %[[SCORES:.*]] = kernel.contract batch [1, 8] m [s0] n [s0] k [512] lhs {
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (0, d1, d2, d4) : {{.*}} -> bf16
// CHECK: } rhs {
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (0, d1 floordiv 4, d3, d4)
// CHECK: } epilogue {
// CHECK: ^bb0(%[[SUM:.*]]: f32):
// CHECK: arith.mulf %[[SUM]]
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (d2, d3)
// CHECK: arith.addf
// CHECK: } : tensor<1x8x?x?xf32, #sym.shape<[1, 8, s0, s0]>>
// CHECK: %[[WEIGHTS:.*]] = kernel.map {
// CHECK: %[[MAX:.*]] = kernel.reduce [s0]
// CHECK: kernel.read %[[SCORES]] (d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)
// CHECK: arith.maximumf
// CHECK: kernel.reduce [s0]
// CHECK: arith.addf
// CHECK: arith.divf
// CHECK: arith.select
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: } : tensor<1x8x?x?xbf16, #sym.shape<[1, 8, s0, s0]>>
// CHECK: kernel.contract batch [1, 8] m [s0] n [320] k [s0] perm [0, 2, 1, 3] lhs {
// CHECK: kernel.read %[[WEIGHTS]] (d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)
// CHECK: } rhs {
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (0, d1 floordiv 4, d4, d3)
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: } : tensor<1x?x8x320xbf16, #sym.shape<[1, s0, 8, 320]>>
func.func @wide(%q: tensor<1x8x?x512xbf16, #sym.shape<[1, 8, s0, 512]>>, %k: tensor<1x2x?x512xbf16, #sym.shape<[1, 2, s0, 512]>>,
                %bias: tensor<?x?xbf16, #sym.shape<[s0, s0]>>) -> tensor<1x?x8x320xbf16, #sym.shape<[1, s0, 8, 320]>>
    attributes {sym.symbols = {s0 = {min = 0 : i64, max = 4000 : i64}}} {
  %o = kernel.attention batch [1, 8] m <s0> n <s0> d <512> dv <320> scale 0.125 perm [0, 2, 1, 3] q {
    %a = kernel.read %q (d0, d1, d2, d3, d4, d5) -> (0, d1, d2, d4) : tensor<1x8x?x512xbf16, #sym.shape<[1, 8, s0, 512]>> -> bf16
    kernel.yield %a : bf16
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4, d5) -> (0, d1 floordiv 4, d3, d4) : tensor<1x2x?x512xbf16, #sym.shape<[1, 2, s0, 512]>> -> bf16
    kernel.yield %a : bf16
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4, d5) -> (0, d1 floordiv 4, d3, d5) : tensor<1x2x?x512xbf16, #sym.shape<[1, 2, s0, 512]>> -> bf16
    kernel.yield %a : bf16
  } bias {
    %a = kernel.read %bias (d0, d1, d2, d3, d4, d5) -> (d2, d3) : tensor<?x?xbf16, #sym.shape<[s0, s0]>> -> bf16
    kernel.yield %a : bf16
  } : tensor<1x?x8x320xbf16, #sym.shape<[1, s0, 8, 320]>>
  return %o : tensor<1x?x8x320xbf16, #sym.shape<[1, s0, 8, 320]>>
}

// -----

// Keys behind the query are left out of the scores. What depends on the run alone is the number of features.
// CHECK-LABEL: func.func @causal
// CHECK-NOT: kernel.attention
// CHECK: kernel.contract batch [2] m [100] n [90] k [s0]
// CHECK: } epilogue {
// CHECK-DAG: %[[KEY:.*]] = kernel.index (d0, d1, d2, d3) -> (d2)
// CHECK-DAG: %[[QUERY:.*]] = kernel.index (d0, d1, d2, d3) -> (d1)
// CHECK: %[[SEEN:.*]] = arith.cmpi sle, %[[KEY]], %[[QUERY]]
// CHECK: arith.select %[[SEEN]]
// CHECK: } : tensor<2x100x90xf32>
// CHECK: kernel.contract batch [2] m [100] n [s0] k [90] lhs
func.func @causal(%q: tensor<2x100x?xf32, #sym.shape<[2, 100, s0]>>) -> tensor<2x100x?xf32, #sym.shape<[2, 100, s0]>> {
  %o = kernel.attention batch [2] m <100> n <90> d <s0> dv <s0> scale 0.125 causal q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x100x?xf32, #sym.shape<[2, 100, s0]>> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x100x?xf32, #sym.shape<[2, 100, s0]>> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x100x?xf32, #sym.shape<[2, 100, s0]>> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x100x?xf32, #sym.shape<[2, 100, s0]>>
  return %o : tensor<2x100x?xf32, #sym.shape<[2, 100, s0]>>
}

// -----

// 256 features fit in a block, but not of f64.
// CHECK-LABEL: func.func @fits
// CHECK: kernel.attention batch [] m <100> n <100> d <256> dv <256>
// CHECK-NOT: kernel.attention
// CHECK: kernel.contract batch [] m [100] n [100] k [256]
// CHECK: } : tensor<100x100xf64>
// CHECK: kernel.map
// CHECK: kernel.contract batch [] m [100] n [256] k [100]
func.func @fits(%x: tensor<100x256xf32>, %y: tensor<100x256xf64>) -> (tensor<100x256xf32>, tensor<100x256xf64>) {
  %o = kernel.attention batch [] m <100> n <100> d <256> dv <256> scale 0.125 q {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d2) : tensor<100x256xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d1, d2) : tensor<100x256xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d1, d3) : tensor<100x256xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<100x256xf32>
  %p = kernel.attention batch [] m <100> n <100> d <256> dv <256> scale 0.125 q {
    %a = kernel.read %y (d0, d1, d2, d3) -> (d0, d2) : tensor<100x256xf64> -> f64
    kernel.yield %a : f64
  } k {
    %a = kernel.read %y (d0, d1, d2, d3) -> (d1, d2) : tensor<100x256xf64> -> f64
    kernel.yield %a : f64
  } v {
    %a = kernel.read %y (d0, d1, d2, d3) -> (d1, d3) : tensor<100x256xf64> -> f64
    kernel.yield %a : f64
  } bias {
  } : tensor<100x256xf64>
  return %o, %p : tensor<100x256xf32>, tensor<100x256xf64>
}

// -----

// Scores that are made of a product and a bias, and NaN where all of a row is left out.
// CHECK-LABEL: func.func @score
// CHECK-NOT: kernel.attention
// CHECK: ^bb0(%[[SUM:.*]]: f32):
// CHECK: %[[PRODUCT:.*]] = arith.mulf %[[SUM]]
// CHECK: %[[BIAS:.*]] = kernel.read %{{.*}} (d0, d1, d2, d3) -> (d1)
// CHECK: %[[TANH:.*]] = math.tanh %[[PRODUCT]] : f32
// CHECK: arith.addf %[[TANH]], %[[BIAS]] : f32
// CHECK: } : tensor<1x8x8xf32>
// CHECK-NOT: arith.select
func.func @score(%q: tensor<8x4xf32>, %bias: tensor<8xf32>) -> tensor<1x8x4xf32> {
  %y = kernel.attention batch [1] m <8> n <8> d <4> dv <4> scale 0.5 nan q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d1, d3) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d2, d3) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d2, d4) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } bias {
    %a = kernel.read %bias (d0, d1, d2, d3, d4) -> (d1) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } score {
  ^bb0(%p: f32, %b: f32):
    %t = math.tanh %p : f32
    %s = arith.addf %t, %b : f32
    kernel.yield %s : f32
  } : tensor<1x8x4xf32>
  return %y : tensor<1x8x4xf32>
}
