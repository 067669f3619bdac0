// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-pack-contracts --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --cpu-set-target=cpu=x86-64-v4 --cpu-pack-contracts --run-reference --split-input-file -o /dev/null
// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v3 --cpu-pack-contracts --split-input-file | FileCheck %s --check-prefix=AVX2

// Columns fill the last panel: the packed operand is a view of the constant.
// CHECK-LABEL: func.func @linear
func.func @linear(%x: tensor<128x768xf32>) -> tensor<128x64xf32> {
  %w = kernel.constant dense<1.0> : tensor<64x768xf32> : tensor<64x768xf32>
  // CHECK: %[[W:.*]] = kernel.constant
  // CHECK: %[[P:.*]] = kernel.map {
  // CHECK-NEXT: kernel.read %[[W]] (d0, d1, d2) -> (32*d0 + d2, d1)
  // CHECK: } : tensor<2x768x32xf32>
  // CHECK: kernel.contract batch [] m [128] n [64] k [768] panel 32
  // CHECK: rhs {
  // CHECK-NEXT: kernel.read %[[P]] (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32)
  // AVX2: kernel.read %{{.*}} (d0, d1, d2) -> (16*d0 + d2, d1)
  // AVX2: } : tensor<4x768x16xf32>
  // AVX2: panel 16
  %r = kernel.contract batch [] m [128] n [64] k [768] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x768xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x768xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<128x64xf32>
  return %r : tensor<128x64xf32>
}

// -----

// The last panel is filled up with zeros; one row makes wide panels; the weights' maths moves along.
// CHECK-LABEL: func.func @classifier
func.func @classifier(%x: tensor<1x64xf32>) -> tensor<1x1000xf32> {
  %w = kernel.constant dense<1.0> : tensor<64x1000xf32> : tensor<64x1000xf32>
  // CHECK: kernel.map {
  // CHECK-DAG: %[[IN:.*]] = kernel.inside (d0, d1, d2) -> (128*d0 + d2) bounds [1000]
  // CHECK-DAG: %[[B:.*]] = kernel.read {{.*}} (d0, d1, d2) -> (d1, 128*d0 + d2) if %[[IN]]
  // CHECK: %[[SQ:.*]] = arith.mulf %[[B]], %[[B]]
  // CHECK: %[[R:.*]] = arith.select %[[IN]], %[[SQ]], %{{.*}}
  // CHECK: kernel.yield %[[R]]
  // CHECK: } : tensor<8x64x128xf32>
  // CHECK: panel 128
  %r = kernel.contract batch [] m [1] n [1000] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<64x1000xf32> -> f32
    %c = arith.mulf %b, %b : f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<1x1000xf32>
  return %r : tensor<1x1000xf32>
}

// -----

// Channels-last data: the sum runs over window row, window column, channel.
// CHECK-LABEL: func.func @conv
func.func @conv(%x: tensor<1x10x10x32xf32>) -> tensor<1x8x8x32xf32> {
  %w = kernel.constant dense<1.0> : tensor<32x32x3x3xf32> : tensor<32x32x3x3xf32>
  // CHECK: kernel.read {{.*}} (d0, d1, d2) -> (d2, d1 mod 32, d1 floordiv 96, (d1 floordiv 32) mod 3)
  // CHECK: } : tensor<1x288x32xf32>
  // CHECK: kernel.contract batch [] m [1, 8, 8] n [32] k [3, 3, 32] panel 32
  // CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d4, d2 + d5, d6)
  // CHECK: kernel.read {{.*}} -> (d3 floordiv 32, 96*d4 + 32*d5 + d6, d3 mod 32)
  %r = kernel.contract batch [] m [1, 8, 8] n [32] k [32, 3, 3] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d5, d2 + d6, d4) : tensor<1x10x10x32xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5, d6) -> (d3, d4, d5, d6) : tensor<32x32x3x3xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<1x8x8x32xf32>
  return %r : tensor<1x8x8x32xf32>
}

// -----

// An activation stays as it is. Weights shared by a batch are packed once.
// CHECK-LABEL: func.func @batches
func.func @batches(%x: tensor<4x16x64xf32>, %y: tensor<4x64x32xf32>) -> (tensor<4x16x32xf32>, tensor<4x16x32xf32>) {
  %w = kernel.constant dense<1.0> : tensor<64x32xf32> : tensor<64x32xf32>
  // CHECK-NOT: kernel.map
  // CHECK: kernel.contract batch [4] m [16] n [32] k [64] lhs
  // CHECK: kernel.read %arg1 (d0, d1, d2, d3) -> (d0, d3, d2)
  %r = kernel.contract batch [4] m [16] n [32] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<4x16x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %y (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<4x64x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<4x16x32xf32>
  // CHECK: } : tensor<1x1x64x32xf32>
  // CHECK: kernel.contract batch [4] m [16] n [32] k [64] panel 32
  // CHECK: (d0, d1, d2, d3) -> (0, d2 floordiv 32, d3, d2 mod 32)
  %s = kernel.contract batch [4] m [16] n [32] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<4x16x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3) -> (d3, d2) : tensor<64x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<4x16x32xf32>
  return %r, %s : tensor<4x16x32xf32>, tensor<4x16x32xf32>
}

// -----

// One row alone would take wider panels, and many rows narrower ones: both have the same.
// CHECK-LABEL: func.func @shared
// CHECK: kernel.contract batch [] m [64] n [256] k [32] panel 64
// CHECK: kernel.contract batch [] m [1] n [256] k [32] panel 64
// AVX2-LABEL: func.func @shared
// AVX2: kernel.contract batch [] m [64] n [256] k [32] panel 24
// AVX2: kernel.contract batch [] m [1] n [256] k [32] panel 24
func.func @shared(%x: tensor<64x32xf32>) -> (tensor<64x256xf32>, tensor<1x256xf32>) {
  %w = kernel.constant "w" dense<1.0> : tensor<256x32xf32> : tensor<256x32xf32>
  %many = kernel.contract batch [] m [64] n [256] k [32] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x32xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<256x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<64x256xf32>
  %one = kernel.contract batch [] m [1] n [256] k [32] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (63, d2) : tensor<64x32xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<256x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x256xf32>
  return %many, %one : tensor<64x256xf32>, tensor<1x256xf32>
}

// -----

// A layout decides instead: how wide the panels of a constant are, that an operand of each run is packed by a map, of open
// size, too, and that a constant is not. Nothing is left of layouts.
// CHECK-LABEL: func.func @wide
// CHECK: } : tensor<2x64x48xf32>
// CHECK: kernel.contract batch [] m [64] n [96] k [64] panel 48 lhs
func.func @wide(%x: tensor<64x64xf32>) -> tensor<64x96xf32> {
  %w = kernel.constant dense<1.0> : tensor<96x64xf32> : tensor<96x64xf32>
  %r = kernel.contract batch [] m [64] n [96] k [64] attributes {cpu.layout = #cpu.layout<rhs = copied, panel = 48>} lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<96x64xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x96xf32>
  return %r : tensor<64x96xf32>
}

// CHECK-LABEL: func.func @each_run
// CHECK-SAME: %{{.*}}: tensor<64x?xf32, {{.*}}>, %[[Y:.*]]: tensor<40x?xf32
// CHECK: kernel.read %[[Y]] (d0, d1, d2) -> (32*d0 + d2, d1) if
// CHECK: } : tensor<2x?x32xf32, #sym.shape<[2, s0, 32]>>
// CHECK: kernel.contract batch [] m [64] n [40] k [s0] panel 32 lhs
func.func @each_run(%x: tensor<64x?xf32, #sym.shape<[64, s0]>>, %y: tensor<40x?xf32, #sym.shape<[40, s0]>>) -> tensor<64x40xf32> attributes {sym.symbols = {s0 = {min = 0, max = 100}}} {
  %r = kernel.contract batch [] m [64] n [40] k [s0] attributes {cpu.layout = #cpu.layout<rhs = copied>} lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x?xf32, #sym.shape<[64, s0]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %y (d0, d1, d2) -> (d1, d2) : tensor<40x?xf32, #sym.shape<[40, s0]>> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x40xf32>
  return %r : tensor<64x40xf32>
}

// CHECK-LABEL: func.func @plain
// CHECK-NOT: kernel.map
// CHECK: kernel.contract batch [] m [64] n [96] k [64] lhs
func.func @plain(%x: tensor<64x64xf32>) -> tensor<64x96xf32> {
  %w = kernel.constant dense<1.0> : tensor<96x64xf32> : tensor<96x64xf32>
  %r = kernel.contract batch [] m [64] n [96] k [64] attributes {cpu.layout = #cpu.layout<rhs = kept>} lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<96x64xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x96xf32>
  return %r : tensor<64x96xf32>
}
