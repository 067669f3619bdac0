// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v3},kernel.func(cpu-choose-schedule))' --split-input-file --verify-diagnostics | FileCheck %s

// A row of f32 is multiplied as digits by four bits with a scale for each group of steps: there is memory for those of 64 blocks.
// CHECK-LABEL: kernel.func @row
// CHECK-SAME: scratch = 7424
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 1, vectors = 2, lanes = 8, block_rows = 1, block_columns = 256, block_sums = 2048, unit = digits>
kernel.func @row(%x: tensor<1x2048xf32>, %w: tensor<16x256x16xi32>, %s: tensor<16x64x16xf32>) -> tensor<1x256xf32> {
  %y = kernel.contract batch [] m [1] n [256] k [64, 4, 8] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, 32*d2 + 8*d3 + d4) : tensor<1x2048xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d1 floordiv 16, 4*d2 + d3, d1 mod 16) : tensor<16x256x16xi32> -> i32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (28 - 4*d4)
    %by = arith.trunci %i : i64 to i32
    %up = arith.shli %b, %by : i32
    %top = arith.constant 28 : i32
    %q = arith.shrsi %up, %top : i32
    %c = arith.sitofp %q : i32 to f32
    %scale = kernel.read %s (d0, d1, d2, d3, d4) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<16x64x16xf32> -> f32
    %p = arith.mulf %c, %scale : f32
    kernel.yield %p : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x256xf32>
  kernel.return %y : tensor<1x256xf32>
}

// -----

// The digits of a long row are multiplied in parts that stay in level 1 cache, and the next panel is fetched.
// CHECK-LABEL: kernel.func @long_row
// CHECK-SAME: scratch = 30720
// CHECK-SAME: block_sums = 2048, epilogue = memory, prefetch = l2, unit = digits>
kernel.func @long_row(%x: tensor<1x8192xf32>, %w: tensor<16x1024x16xi32>, %s: tensor<16x256x16xf32>) -> tensor<1x256xf32> {
  %y = kernel.contract batch [] m [1] n [256] k [256, 4, 8] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, 32*d2 + 8*d3 + d4) : tensor<1x8192xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d1 floordiv 16, 4*d2 + d3, d1 mod 16) : tensor<16x1024x16xi32> -> i32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (28 - 4*d4)
    %by = arith.trunci %i : i64 to i32
    %up = arith.shli %b, %by : i32
    %top = arith.constant 28 : i32
    %q = arith.shrsi %up, %top : i32
    %c = arith.sitofp %q : i32 to f32
    %scale = kernel.read %s (d0, d1, d2, d3, d4) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<16x256x16xf32> -> f32
    %p = arith.mulf %c, %scale : f32
    kernel.yield %p : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x256xf32>
  kernel.return %y : tensor<1x256xf32>
}

// -----

// Zero points are multiplied by the sum of a block's integers.
// CHECK-LABEL: kernel.func @zeros
// CHECK-SAME: unit = digits>
kernel.func @zeros(%x: tensor<1x2048xf32>, %w: tensor<16x256x16xi32>, %s: tensor<16x64x16xf32>, %z: tensor<16x64x16xf32>) -> tensor<1x256xf32> {
  %y = kernel.contract batch [] m [1] n [256] k [64, 4, 8] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, 32*d2 + 8*d3 + d4) : tensor<1x2048xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d1 floordiv 16, 4*d2 + d3, d1 mod 16) : tensor<16x256x16xi32> -> i32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (28 - 4*d4)
    %by = arith.trunci %i : i64 to i32
    %up = arith.shli %b, %by : i32
    %top = arith.constant 28 : i32
    %q = arith.shrsi %up, %top : i32
    %c = arith.sitofp %q : i32 to f32
    %zero = kernel.read %z (d0, d1, d2, d3, d4) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<16x64x16xf32> -> f32
    %e = arith.subf %c, %zero : f32
    %scale = kernel.read %s (d0, d1, d2, d3, d4) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<16x64x16xf32> -> f32
    %p = arith.mulf %e, %scale : f32
    kernel.yield %p : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x256xf32>
  kernel.return %y : tensor<1x256xf32>
}

// -----

// More rows share what is widened.
// CHECK-LABEL: kernel.func @two_rows
// CHECK-NOT: unit
// CHECK-SAME: block_sums = 2048>
kernel.func @two_rows(%x: tensor<2x2048xf32>, %w: tensor<16x256x16xi32>, %s: tensor<16x64x16xf32>) -> tensor<2x256xf32> {
  %y = kernel.contract batch [] m [2] n [256] k [64, 4, 8] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, 32*d2 + 8*d3 + d4) : tensor<2x2048xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d1 floordiv 16, 4*d2 + d3, d1 mod 16) : tensor<16x256x16xi32> -> i32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (28 - 4*d4)
    %by = arith.trunci %i : i64 to i32
    %up = arith.shli %b, %by : i32
    %top = arith.constant 28 : i32
    %q = arith.shrsi %up, %top : i32
    %c = arith.sitofp %q : i32 to f32
    %scale = kernel.read %s (d0, d1, d2, d3, d4) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<16x64x16xf32> -> f32
    %p = arith.mulf %c, %scale : f32
    kernel.yield %p : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<2x256xf32>
  kernel.return %y : tensor<2x256xf32>
}

// -----

// Each task widens and scales panels for 16: there is memory for one.
// CHECK-LABEL: kernel.func @many_rows
// CHECK-SAME: scratch = 131072
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 6, vectors = 2, lanes = 8, {{.*}}block_sums = 2048>
kernel.func @many_rows(%x: tensor<16x2048xf32>, %w: tensor<16x256x16xi32>, %s: tensor<16x64x16xf32>) -> tensor<16x256xf32> {
  %y = kernel.contract batch [] m [16] n [256] k [64, 4, 8] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, 32*d2 + 8*d3 + d4) : tensor<16x2048xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d1 floordiv 16, 4*d2 + d3, d1 mod 16) : tensor<16x256x16xi32> -> i32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (28 - 4*d4)
    %by = arith.trunci %i : i64 to i32
    %up = arith.shli %b, %by : i32
    %top = arith.constant 28 : i32
    %q = arith.shrsi %up, %top : i32
    %c = arith.sitofp %q : i32 to f32
    %scale = kernel.read %s (d0, d1, d2, d3, d4) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<16x64x16xf32> -> f32
    %p = arith.mulf %c, %scale : f32
    kernel.yield %p : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<16x256xf32>
  kernel.return %y : tensor<16x256xf32>
}

// -----

// Rows of unknown number do so if they are many: there is memory for a panel, and for the sums of six rows.
// CHECK-LABEL: kernel.func @open_rows
// CHECK-SAME: scratch = 131456
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 6, vectors = 2, lanes = 8, {{.*}}prefetch = l2, widen_rows = 16>
kernel.func @open_rows(%x: tensor<?x2048xf32, #sym.shape<[s0, 2048]>>, %w: tensor<16x256x16xi32>, %s: tensor<16x64x16xf32>) -> tensor<?x256xf32, #sym.shape<[s0, 256]>> {
  %y = kernel.contract batch [] m [s0] n [256] k [64, 4, 8] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, 32*d2 + 8*d3 + d4) : tensor<?x2048xf32, #sym.shape<[s0, 2048]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d1 floordiv 16, 4*d2 + d3, d1 mod 16) : tensor<16x256x16xi32> -> i32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (28 - 4*d4)
    %by = arith.trunci %i : i64 to i32
    %up = arith.shli %b, %by : i32
    %top = arith.constant 28 : i32
    %q = arith.shrsi %up, %top : i32
    %c = arith.sitofp %q : i32 to f32
    %scale = kernel.read %s (d0, d1, d2, d3, d4) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<16x64x16xf32> -> f32
    %p = arith.mulf %c, %scale : f32
    kernel.yield %p : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<?x256xf32, #sym.shape<[s0, 256]>>
  kernel.return %y : tensor<?x256xf32, #sym.shape<[s0, 256]>>
}

// -----

kernel.func @known_rows(%x: tensor<16x2048xf32>, %w: tensor<16x256x16xi32>, %s: tensor<16x64x16xf32>) -> tensor<16x256xf32> attributes {schedule = #cpu.contract<tile_rows = 6, vectors = 2, lanes = 8, block_rows = 6, block_columns = 256, block_sums = 2048, widen_rows = 16>} {
  // expected-error @below {{: it has no packed right operand of small integers, or rows of a known number}}
  %y = kernel.contract batch [] m [16] n [256] k [64, 4, 8] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, 32*d2 + 8*d3 + d4) : tensor<16x2048xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d1 floordiv 16, 4*d2 + d3, d1 mod 16) : tensor<16x256x16xi32> -> i32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (28 - 4*d4)
    %by = arith.trunci %i : i64 to i32
    %up = arith.shli %b, %by : i32
    %top = arith.constant 28 : i32
    %q = arith.shrsi %up, %top : i32
    %c = arith.sitofp %q : i32 to f32
    %scale = kernel.read %s (d0, d1, d2, d3, d4) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<16x64x16xf32> -> f32
    %p = arith.mulf %c, %scale : f32
    kernel.yield %p : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<16x256xf32>
  kernel.return %y : tensor<16x256xf32>
}

// -----

kernel.func @given_rows(%x: tensor<2x2048xf32>, %w: tensor<16x256x16xi32>, %s: tensor<16x64x16xf32>) -> tensor<2x256xf32> attributes {schedule = #cpu.contract<tile_rows = 2, vectors = 2, lanes = 8, block_rows = 2, block_columns = 256, block_sums = 2048, unit = digits>} {
  // expected-error @below {{: there are more rows than are faster so}}
  %y = kernel.contract batch [] m [2] n [256] k [64, 4, 8] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, 32*d2 + 8*d3 + d4) : tensor<2x2048xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d1 floordiv 16, 4*d2 + d3, d1 mod 16) : tensor<16x256x16xi32> -> i32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (28 - 4*d4)
    %by = arith.trunci %i : i64 to i32
    %up = arith.shli %b, %by : i32
    %top = arith.constant 28 : i32
    %q = arith.shrsi %up, %top : i32
    %c = arith.sitofp %q : i32 to f32
    %scale = kernel.read %s (d0, d1, d2, d3, d4) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<16x64x16xf32> -> f32
    %p = arith.mulf %c, %scale : f32
    kernel.yield %p : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<2x256xf32>
  kernel.return %y : tensor<2x256xf32>
}

// -----

kernel.func @given_lanes(%x: tensor<1x2048xf32>, %w: tensor<16x256x16xi32>, %s: tensor<16x64x16xf32>) -> tensor<1x256xf32> attributes {schedule = #cpu.contract<tile_rows = 1, vectors = 4, lanes = 4, block_rows = 1, block_columns = 256, block_sums = 2048, unit = digits>} {
  // expected-error @below {{: vectors have other lanes}}
  %y = kernel.contract batch [] m [1] n [256] k [64, 4, 8] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, 32*d2 + 8*d3 + d4) : tensor<1x2048xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d1 floordiv 16, 4*d2 + d3, d1 mod 16) : tensor<16x256x16xi32> -> i32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (28 - 4*d4)
    %by = arith.trunci %i : i64 to i32
    %up = arith.shli %b, %by : i32
    %top = arith.constant 28 : i32
    %q = arith.shrsi %up, %top : i32
    %c = arith.sitofp %q : i32 to f32
    %scale = kernel.read %s (d0, d1, d2, d3, d4) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<16x64x16xf32> -> f32
    %p = arith.mulf %c, %scale : f32
    kernel.yield %p : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x256xf32>
  kernel.return %y : tensor<1x256xf32>
}

// -----

kernel.func @floats(%x: tensor<1x64xf32>, %w: tensor<16x64x16xf32>) -> tensor<1x256xf32> attributes {schedule = #cpu.contract<tile_rows = 1, vectors = 2, lanes = 8, block_rows = 1, block_columns = 256, block_sums = 64, unit = digits>} {
  // expected-error @below {{: the operands are not rows of f32 and words of four bits with scales of groups}}
  %y = kernel.contract batch [] m [1] n [256] k [64] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<16x64x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x256xf32>
  kernel.return %y : tensor<1x256xf32>
}

// -----

kernel.func @short_groups(%x: tensor<1x2048xf32>, %w: tensor<16x256x16xi32>, %s: tensor<16x128x16xf32>) -> tensor<1x256xf32> attributes {schedule = #cpu.contract<tile_rows = 1, vectors = 2, lanes = 8, block_rows = 1, block_columns = 256, block_sums = 2048, unit = digits>} {
  // expected-error @below {{: a group is not a number of blocks of 32 steps}}
  %y = kernel.contract batch [] m [1] n [256] k [128, 2, 8] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, 16*d2 + 8*d3 + d4) : tensor<1x2048xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d1 floordiv 16, 2*d2 + d3, d1 mod 16) : tensor<16x256x16xi32> -> i32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (28 - 4*d4)
    %by = arith.trunci %i : i64 to i32
    %up = arith.shli %b, %by : i32
    %top = arith.constant 28 : i32
    %q = arith.shrsi %up, %top : i32
    %c = arith.sitofp %q : i32 to f32
    %scale = kernel.read %s (d0, d1, d2, d3, d4) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<16x128x16xf32> -> f32
    %p = arith.mulf %c, %scale : f32
    kernel.yield %p : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x256xf32>
  kernel.return %y : tensor<1x256xf32>
}
