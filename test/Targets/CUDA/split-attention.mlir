// RUN: kiln-opt %s --cuda-split-attention --split-input-file | FileCheck %s

// Four heads of one query each share keys and values: they are rows. Parts are put together from their maxima and sums.
// CHECK-LABEL: func.func @step
// CHECK: %[[PARTS:.*]], %[[STATE:.*]]:2 = kernel.attention batch [1, 2] m <4> n <s0> d <64> dv <64> scale 1.250000e-01
// CHECK-SAME: part 64*(s0 ceildiv 4096) q {
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3, d4, d5) -> (0, 4*d1 + d2, 0, d4) : tensor<1x8x1x64xbf16> -> bf16
// CHECK: } k {
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3, d4, d5) -> (0, d1, d3, d4)
// CHECK: } v {
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3, d4, d5) -> (0, d1, d3, d5)
// CHECK: } bias {
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3, d4, d5) -> (4*d1 + d2, d3)
// CHECK: tensor<?x1x2x4x64xf32, #sym.shape<[s0 ceildiv (64*(s0 ceildiv 4096)), 1, 2, 4, 64]>>,
// CHECK-SAME: tensor<?x1x2x4xf32, {{.*}}>, tensor<?x1x2x4xf32, {{.*}}>
// CHECK: kernel.map {
// CHECK: %[[MAX:.*]] = kernel.reduce [s0 ceildiv (64*(s0 ceildiv 4096))]
// CHECK: kernel.read %[[STATE]]#0 (d0, d1, d2, d3, d4) -> (d4, d0, d2 floordiv 4, d2 mod 4)
// CHECK: arith.maximumf
// CHECK: arith.cmpf oeq, %[[MAX]]
// CHECK: kernel.reduce
// CHECK: math.exp
// CHECK: kernel.read %[[STATE]]#1
// CHECK: arith.addf
// CHECK: kernel.reduce
// CHECK: math.exp
// CHECK: kernel.read %[[PARTS]] (d0, d1, d2, d3, d4) -> (d4, d0, d2 floordiv 4, d2 mod 4, d3)
// CHECK: arith.divf
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: } : tensor<1x1x8x64xbf16>
func.func @step(%q: tensor<1x8x1x64xbf16>, %k: tensor<1x2x?x64xbf16, #sym.shape<[1, 2, s0, 64]>>,
                %bias: tensor<8x?xbf16, #sym.shape<[8, s0]>>) -> tensor<1x1x8x64xbf16>
    attributes {sym.symbols = {s0 = {min = 1 : i64, max = 100000 : i64}}} {
  %o = kernel.attention batch [1, 8] m <1> n <s0> d <64> dv <64> scale 0.125 perm [0, 2, 1, 3] q {
    %a = kernel.read %q (d0, d1, d2, d3, d4, d5) -> (0, d1, 0, d4) : tensor<1x8x1x64xbf16> -> bf16
    kernel.yield %a : bf16
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4, d5) -> (0, d1 floordiv 4, d3, d4) : tensor<1x2x?x64xbf16, #sym.shape<[1, 2, s0, 64]>> -> bf16
    kernel.yield %a : bf16
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4, d5) -> (0, d1 floordiv 4, d3, d5) : tensor<1x2x?x64xbf16, #sym.shape<[1, 2, s0, 64]>> -> bf16
    kernel.yield %a : bf16
  } bias {
    %a = kernel.read %bias (d0, d1, d2, d3, d4, d5) -> (d1, d3) : tensor<8x?xbf16, #sym.shape<[8, s0]>> -> bf16
    kernel.yield %a : bf16
  } : tensor<1x1x8x64xbf16>
  return %o : tensor<1x1x8x64xbf16>
}

// -----

// Few keys, and enough blocks: both stay.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: part
func.func @whole(%q: tensor<8x1x64xf32>, %k: tensor<8x200x64xf32>, %x: tensor<64x2048x64xf32>) -> (tensor<8x1x64xf32>, tensor<64x2048x64xf32>) {
  %o = kernel.attention batch [8] m <1> n <200> d <64> dv <64> scale 0.125 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<8x1x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<8x200x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<8x200x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<8x1x64xf32>
  %p = kernel.attention batch [64] m <2048> n <2048> d <64> dv <64> scale 0.125 causal q {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<64x2048x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<64x2048x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<64x2048x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<64x2048x64xf32>
  return %o, %p : tensor<8x1x64xf32>, tensor<64x2048x64xf32>
}
