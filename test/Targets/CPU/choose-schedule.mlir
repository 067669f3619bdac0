// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v4},kernel.func(cpu-choose-schedule))' --split-input-file | FileCheck %s

// The innermost dim in vectors of two registers; the work makes one task.
// CHECK-LABEL: kernel.func @bias
// CHECK-SAME: launch = #kernel.launch<grid = <1>>,
// CHECK-SAME: schedule = #cpu.map<vector = [1], lanes = 32, rows = 8>
kernel.func @bias(%x: tensor<8x768xf32>, %b: tensor<768xf32>) -> tensor<8x768xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
    %c = kernel.read %b (d0, d1) -> (d1) : tensor<768xf32> -> f32
    %s = arith.addf %a, %c : f32
    kernel.yield %s : f32
  } : tensor<8x768xf32>
  kernel.return %y : tensor<8x768xf32>
}

// -----

// A sum along rows is vectorised itself: the rows stay scalar.
// CHECK-LABEL: kernel.func @row_sums
// CHECK-SAME: schedule = #cpu.map<rows = 8, reduce_lanes = [16], reduce_copies = [4]>
kernel.func @row_sums(%x: tensor<8x768xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [768] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// -----

// The first two share a loop, whose exponentials hide the latency of both sums; the third comes after them.
// CHECK-LABEL: kernel.func @shared_loop
// CHECK-SAME: reduce_lanes = [32, 32, 16], reduce_copies = [1, 1, 4]>
kernel.func @shared_loop(%x: tensor<8x768xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [768] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %t = kernel.reduce [768] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
      %e = math.exp %a : f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %u = kernel.reduce [768] init(%s : f32) {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.maximumf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %v = arith.addf %t, %u : f32
    kernel.yield %v : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// -----

// A long vector is cut; the number of tasks is an expression.
// CHECK-LABEL: kernel.func @long
// CHECK-SAME: launch = #kernel.launch<grid = <s0 ceildiv
module attributes {sym.symbols = {s0 = {min = 1, max = 1000000}}} {
kernel.func @long(%x: tensor<?x4096xf32, #sym.shape<[s0, 4096]>>) -> tensor<?x4096xf32, #sym.shape<[s0, 4096]>> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, 4095 - d1) : tensor<?x4096xf32, #sym.shape<[s0, 4096]>> -> f32
    kernel.yield %a : f32
  } : tensor<?x4096xf32, #sym.shape<[s0, 4096]>>
  kernel.return %y : tensor<?x4096xf32, #sym.shape<[s0, 4096]>>
}
}

// -----

// 128 rows are tiles of 12 and 11, in one block; the columns make the tasks, in pairs of panels. What
// is packed is read as it is: no scratch.
// CHECK-LABEL: kernel.func @linear
// CHECK-SAME: launch = #kernel.launch<grid = <24>>,
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 132, block_columns = 128, block_sums = 768, prefetch = l2>
kernel.func @linear(%x: tensor<128x768xf32>, %w: tensor<96x768x32xf32>, %b: tensor<3072xf32>) -> tensor<128x3072xf32> {
  %y = kernel.contract batch [] m [128] n [3072] k [768] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x768xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<96x768x32xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    %d = kernel.read %b (d0, d1, d2) -> (d1) : tensor<3072xf32> -> f32
    %e = arith.addf %sum, %d : f32
    kernel.yield %e : f32
  } : tensor<128x3072xf32>
  kernel.return %y : tensor<128x3072xf32>
}

// -----

// Rows of a number that is not known are not cut finely, however many there may be: 128 of them would read
// the right operand as often as there are blocks.
// CHECK-LABEL: kernel.func @linear_of_any_rows
// CHECK-SAME: launch = #kernel.launch<grid = <5*((s0*s1) ceildiv 144)>
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 144, block_columns = 640, block_sums = 768, share_tiles = true, prefetch = l2>
module attributes {sym.symbols = {s0 = {min = 1, max = 64}, s1 = {min = 2, max = 512}}} {
kernel.func @linear_of_any_rows(%x: tensor<?x?x768xf32, #sym.shape<[s0, s1, 768]>>, %w: tensor<96x768x32xf32>) -> tensor<?x?x3072xf32, #sym.shape<[s0, s1, 3072]>> {
  %y = kernel.contract batch [] m [s0, s1] n [3072] k [768] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<?x?x768xf32, #sym.shape<[s0, s1, 768]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2, d3) -> (d2 floordiv 32, d3, d2 mod 32) : tensor<96x768x32xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<?x?x3072xf32, #sym.shape<[s0, s1, 3072]>>
  kernel.return %y : tensor<?x?x3072xf32, #sym.shape<[s0, s1, 3072]>>
}
}

// -----

// Two vectors of queries to a panel, all keys in one block; queries, scores and output are in scratch.
// CHECK-LABEL: kernel.func @attention
// CHECK-SAME: launch = #kernel.launch<grid = <8>, scratch = 26880
// CHECK-SAME: schedule = #cpu.attention<tile_keys = 10, vectors = 2, lanes = 16, block_panels = 1, block_keys = 70>
kernel.func @attention(%q: tensor<2x100x64xf32>, %k: tensor<2x70x64xf32>, %v: tensor<2x70x64xf32>) -> tensor<2x100x64xf32> {
  %o = kernel.attention batch [2] m <100> n <70> d <64> dv <64> scale 1.250000e-01 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x100x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x70x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %v (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x70x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x100x64xf32>
  kernel.return %o : tensor<2x100x64xf32>
}

// -----

// Few queries are a task each; a block of scores, the query and its output are in scratch.
// CHECK-LABEL: kernel.func @attention_of_few_queries
// CHECK-SAME: launch = #kernel.launch<grid = <8>, scratch = 2624
// CHECK-SAME: schedule = #cpu.attention_by_query<lanes = 16, block_keys = 512>
kernel.func @attention_of_few_queries(%q: tensor<2x4x64xf32>, %k: tensor<2x70x64xf32>, %v: tensor<2x70x64xf32>) -> tensor<2x4x64xf32> {
  %o = kernel.attention batch [2] m <4> n <70> d <64> dv <64> scale 1.250000e-01 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x4x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x70x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %v (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x70x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x4x64xf32>
  kernel.return %o : tensor<2x4x64xf32>
}

// -----

// Both operands are computed: few blocks of rows, since each would compute the right one again.
// CHECK-LABEL: kernel.func @both_computed
// CHECK-SAME: block_rows = 36, block_columns = 160, block_sums = 4096, lhs = matrix, lhs_padding = 16>
kernel.func @both_computed(%x: tensor<128x4096xbf16>, %w: tensor<4096x4096xi8>) -> tensor<128x4096xf32> {
  %y = kernel.contract batch [] m [128] n [4096] k [4096] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x4096xbf16> -> bf16
    %b = arith.extf %a : bf16 to f32
    kernel.yield %b : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<4096x4096xi8> -> i8
    %b = arith.sitofp %a : i8 to f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<128x4096xf32>
  kernel.return %y : tensor<128x4096xf32>
}

// -----

// Tiles have two rows of the images, which are short; the weights are read as they lie and turned.
// CHECK-LABEL: kernel.func @short_rows
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 14, vectors = 2, lanes = 16, block_rows = 56, block_columns = 32, block_sums = 144, tile_axes = 2, block_axes = 2, turn = rhs>
kernel.func @short_rows(%x: tensor<8x9x9x16xf32>, %w: tensor<32x144xf32>) -> tensor<8x7x7x32xf32> {
  %y = kernel.contract batch [] m [8, 7, 7] n [32] k [3, 3, 16] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d4, d2 + d5, d6) : tensor<8x9x9x16xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5, d6) -> (d3, 48*d4 + 16*d5 + d6) : tensor<32x144xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<8x7x7x32xf32>
  kernel.return %y : tensor<8x7x7x32xf32>
}

// -----

// One row reads the weights once, along the sum, and turns the sums.
// CHECK-LABEL: kernel.func @one_row
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 1, vectors = 1, lanes = 16, block_rows = 1, block_columns = 64, block_sums = 784, turn = sums, tile_sums = 8>
kernel.func @one_row(%x: tensor<1x784xf32>, %w: tensor<512x784xf32>) -> tensor<1x512xf32> {
  %y = kernel.contract batch [] m [1] n [512] k [784] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x784xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<512x784xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<1x512xf32>
  kernel.return %y : tensor<1x512xf32>
}

// -----

// With several tiles of rows, a block of the sum stays in level 1 cache.
// CHECK-LABEL: kernel.func @few_rows
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 4, vectors = 1, lanes = 16, block_rows = 8, block_columns = 64, block_sums = 400, epilogue = memory, turn = sums, tile_sums = 16>
kernel.func @few_rows(%x: tensor<8x784xf32>, %w: tensor<512x784xf32>) -> tensor<8x512xf32> {
  %y = kernel.contract batch [] m [8] n [512] k [784] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x784xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<512x784xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<8x512xf32>
  kernel.return %y : tensor<8x512xf32>
}

// -----

// For many rows the weights are turned: that is done once for all of them.
// CHECK-LABEL: kernel.func @many_rows
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 132, block_columns = 32, block_sums = 784, turn = rhs>
kernel.func @many_rows(%x: tensor<128x784xf32>, %w: tensor<512x784xf32>) -> tensor<128x512xf32> {
  %y = kernel.contract batch [] m [128] n [512] k [784] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x784xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<512x784xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<128x512xf32>
  kernel.return %y : tensor<128x512xf32>
}

// -----

// A single column: the rows are many, and lanes lie along the sum.
// CHECK-LABEL: kernel.func @one_column
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 8, vectors = 1, lanes = 16, block_rows = 64, block_columns = 16, block_sums = 784, turn = sums, tile_sums = 8>
kernel.func @one_column(%x: tensor<64x784xf32>, %w: tensor<1x784xf32>) -> tensor<64x1xf32> {
  %y = kernel.contract batch [] m [64] n [1] k [784] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x784xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<1x784xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x1xf32>
  kernel.return %y : tensor<64x1xf32>
}

// -----

// The weights of a convolution lie along the sum in another order, with the channels outside of the window.
// They are turned in the order of memory, all of the sum at once. The rows are one block, so that this is
// done once.
// CHECK-LABEL: kernel.func @channels_outside
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 14, vectors = 2, lanes = 16, block_rows = 196, {{.*}}block_sums = 2304, lhs = window, {{.*}}turn = rhs>
kernel.func @channels_outside(%x: tensor<14x14x256xf32>, %w: tensor<256x256x3x3xf32>) -> tensor<14x14x256xf32> {
  %y = kernel.contract batch [] m [14, 14] n [256] k [3, 3, 256] lhs {
    %i = kernel.inside (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1) bounds [14, 14]
    %z = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1, d5) if %i else(%z : f32) : tensor<14x14x256xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d5, d3, d4) : tensor<256x256x3x3xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<14x14x256xf32>
  kernel.return %y : tensor<14x14x256xf32>
}

// -----

// Windows slide over whole rows of the image, however wide: a task copies a few of them, and one above and below.
// The only panel is read where it lies: the task's memory holds the image alone, 32 channels of 5 rows of 514.
// CHECK-LABEL: kernel.func @wide_image
// CHECK-SAME: scratch = 328960
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 14, vectors = 2, lanes = 16, block_rows = 1536, {{.*}}lhs = window, block_axes = 2>
kernel.func @wide_image(%x: tensor<32x128x512xf32>, %w: tensor<1x288x32xf32>) -> tensor<128x512x32xf32> {
  %y = kernel.contract batch [] m [128, 512] n [32] k [32, 3, 3] panel 32 lhs {
    %i = kernel.inside (d0, d1, d2, d3, d4, d5) -> (d0 + d4 - 1, d1 + d5 - 1) bounds [128, 512]
    %z = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d3, d0 + d4 - 1, d1 + d5 - 1) if %i else(%z : f32) : tensor<32x128x512xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2 floordiv 32, 9*d3 + 3*d4 + d5, d2 mod 32) : tensor<1x288x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<128x512x32xf32>
  kernel.return %y : tensor<128x512x32xf32>
}

// -----

// A row that does not fit in the cache is cut: 2,048 columns of 512 channels.
// CHECK-LABEL: kernel.func @very_wide_image
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 14, vectors = 2, lanes = 16, block_rows = 28, {{.*}}lhs = window, epilogue = memory, prefetch = l2>
kernel.func @very_wide_image(%x: tensor<8x2048x512xf32>, %w: tensor<1x4608x32xf32>) -> tensor<8x2048x32xf32> {
  %y = kernel.contract batch [] m [8, 2048] n [32] k [3, 3, 512] panel 32 lhs {
    %i = kernel.inside (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1) bounds [8, 2048]
    %z = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1, d5) if %i else(%z : f32) : tensor<8x2048x512xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2 floordiv 32, 1536*d3 + 512*d4 + d5, d2 mod 32) : tensor<1x4608x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<8x2048x32xf32>
  kernel.return %y : tensor<8x2048x32xf32>
}

// -----

// Data in another order than the result: vectors along the channels, which lie together, are turned in
// squares and stored along the pixels, a part of which is a task's.
// CHECK-LABEL: kernel.func @channels_first
// CHECK-SAME: schedule = #cpu.map<vector = [2, 3], lanes = 16, columns = 128, turn = [0, 1]>
kernel.func @channels_first(%x: tensor<1x56x56x256xf32>) -> tensor<1x256x56x56xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d2, d3, d1) : tensor<1x56x56x256xf32> -> f32
    kernel.yield %a : f32
  } : tensor<1x256x56x56xf32>
  kernel.return %y : tensor<1x256x56x56xf32>
}

// -----

// Three channels fill too little of a square.
// CHECK-LABEL: kernel.func @colors_last
// CHECK-SAME: schedule = #cpu.map<vector = [0, 1], lanes = 32, columns = 7712>
kernel.func @colors_last(%x: tensor<3x224x224xf32>) -> tensor<224x224x3xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d0, d1) : tensor<3x224x224xf32> -> f32
    kernel.yield %a : f32
  } : tensor<224x224x3xf32>
  kernel.return %y : tensor<224x224x3xf32>
}

// -----

// An image whose height and width are one dim has the windows that its bounds tell of.
// CHECK-LABEL: kernel.func @flat_image
// CHECK-SAME: schedule = #cpu.contract<{{.*}}lanes = 16, {{.*}}lhs = window
kernel.func @flat_image(%x: tensor<196x96xf32>, %w: tensor<96x3x3xf32>) -> tensor<96x14x14x1xf32> {
  %y = kernel.contract batch [96] m [14, 14] n [1] k [3, 3] lhs {
    %i = kernel.inside (d0, d1, d2, d3, d4, d5) -> (d1 + d4 - 1, d2 + d5 - 1) bounds [14, 14]
    %z = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (14*d1 + d2 + 14*d4 + d5 - 15, d0) if %i else(%z : f32) : tensor<196x96xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d0, d4, d5) : tensor<96x3x3xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<96x14x14x1xf32>
  kernel.return %y : tensor<96x14x14x1xf32>
}

// -----

// Results without elements have no tasks.
// CHECK-LABEL: kernel.func @maybe_empty
// CHECK-SAME: launch = #kernel.launch<grid = <min({{.*}}s0{{.*}})>
module attributes {sym.symbols = {s0 = {min = 0, max = 20}}} {
  kernel.func @maybe_empty(%x: tensor<2x8x?xf32, #sym.shape<[2, 8, s0]>>, %w: tensor<4x8xf32>) -> tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>> {
    %y = kernel.contract batch [] m [2, s0] n [4] k [8] lhs {
      %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d3, d1) : tensor<2x8x?xf32, #sym.shape<[2, 8, s0]>> -> f32
      kernel.yield %a : f32
    } rhs {
      %b = kernel.read %w (d0, d1, d2, d3) -> (d2, d3) : tensor<4x8xf32> -> f32
      kernel.yield %b : f32
    } epilogue {
    ^bb0(%s: f32):
      kernel.yield %s : f32
    } : tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>>
    kernel.return %y : tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>>
  }
}

// -----

// A pool's window slides over rows of channels: four steps of it share what they read.
// CHECK-LABEL: kernel.func @window
// CHECK-SAME: schedule = #cpu.map<vector = [1, 2], lanes = 16, columns = 176, steps = 4>
kernel.func @window(%x: tensor<64x64x16xf32>) -> tensor<62x62x16xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [3, 3] init(%zero : f32) {
      %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0 + d3, d1 + d4, d2) : tensor<64x64x16xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<62x62x16xf32>
  kernel.return %y : tensor<62x62x16xf32>
}

// -----

// A short scan in vectors of columns.
// CHECK-LABEL: kernel.func @scan
// CHECK-SAME: launch = #kernel.launch<grid = <1>>,
// CHECK-SAME: schedule = #codegen.scan<lanes = 16>
kernel.func @scan(%x: tensor<30x64xf32>) -> tensor<30x64xf32> {
  %y = kernel.scan dim 0 init {
    %zero = arith.constant 0.0 : f32
    kernel.yield %zero : f32
  } body {
    %v = kernel.read %x (d0, d1) -> (d0, d1) : tensor<30x64xf32> -> f32
    kernel.yield %v : f32
  } combine {
  ^bb0(%sum: f32, %next: f32):
    %s = arith.addf %sum, %next : f32
    kernel.yield %s : f32
  } finish {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<30x64xf32>
  kernel.return %y : tensor<30x64xf32>
}

// -----

// A schedule that is there stays, and decides the number of tasks.
// CHECK-LABEL: kernel.func @kept
// CHECK-SAME: launch = #kernel.launch<grid = <32>>,
// CHECK-SAME: schedule = #cpu.map<vector = [1], lanes = 4, rows = 2, columns = 96>
kernel.func @kept(%x: tensor<8x768xf32>, %b: tensor<768xf32>) -> tensor<8x768xf32> attributes {schedule = #cpu.map<vector = [1], lanes = 4, rows = 2, columns = 96>} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
    %c = kernel.read %b (d0, d1) -> (d1) : tensor<768xf32> -> f32
    %s = arith.addf %a, %c : f32
    kernel.yield %s : f32
  } : tensor<8x768xf32>
  kernel.return %y : tensor<8x768xf32>
}

// -----

// One row reads the right operand where it is, in runs as long as there are accumulators.
// CHECK-LABEL: kernel.func @row_times_matrix
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 1, vectors = 24, lanes = 16, {{.*}}block_sums = 1024, rhs = direct>
kernel.func @row_times_matrix(%x: tensor<1x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<1x1024xf32> {
  %y = kernel.contract batch [] m [1] n [1024] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x1024xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<1024x1024xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<1x1024xf32>
  kernel.return %y : tensor<1x1024xf32>
}

// -----

// Small products: several tiles read a panel that stays in the cache, with no more lanes than there are columns. One task
// does all of them, since others would be over before they had begun.
// CHECK-LABEL: kernel.func @small_products
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 15, vectors = 1, lanes = 8, {{.*}}rhs = direct, parts = 9>
kernel.func @small_products(%x: tensor<9x30x24xf32>, %w: tensor<9x24x8xf32>) -> tensor<9x30x8xf32> {
  %y = kernel.contract batch [9] m [30] n [8] k [24] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<9x30x24xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<9x24x8xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<9x30x8xf32>
  kernel.return %y : tensor<9x30x8xf32>
}

// -----

// Rows that are a page apart would share a few sets of the cache: the panels are copied.
// CHECK-LABEL: kernel.func @far_rows
// CHECK-SAME: schedule = #cpu.contract<tile_rows = {{[0-9]+}}, vectors = 2, lanes = 16, block_rows = {{[0-9]+}}, block_columns = {{[0-9]+}}, block_sums = 1024>
kernel.func @far_rows(%x: tensor<96x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<96x1024xf32> {
  %y = kernel.contract batch [] m [96] n [1024] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<96x1024xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<1024x1024xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<96x1024xf32>
  kernel.return %y : tensor<96x1024xf32>
}

// -----

// Two threads would share five blocks of five tiles as three to two. Six of four tiles, and one that is left, end together.
// CHECK-LABEL: kernel.func @even_blocks
// CHECK-SAME: launch = #kernel.launch<grid = <7>>,
// CHECK-SAME: schedule = #cpu.contract<{{.*}}block_rows = 48, block_columns = 64,
kernel.func @even_blocks(%x: tensor<300x256xf32>, %w: tensor<2x256x32xf32>) -> tensor<300x64xf32> {
  %y = kernel.contract batch [] m [300] n [64] k [256] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<300x256xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<2x256x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<300x64xf32>
  kernel.return %y : tensor<300x64xf32>
}

// -----

// Each block of rows would read all of the weights, which no cache holds: all rows are one, beside blocks of a panel each. The sum is cut such that a
// piece of a panel leaves room in level 2 cache.
// CHECK-LABEL: kernel.func @small_image
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 14, vectors = 2, lanes = 16, block_rows = 56, block_columns = 32, block_sums = 512, lhs = window, epilogue = memory, prefetch = l2, tile_axes = 2, block_axes = 2>
kernel.func @small_image(%x: tensor<7x7x512xf32>, %w: tensor<16x4608x32xf32>) -> tensor<7x7x512xf32> {
  %y = kernel.contract batch [] m [7, 7] n [512] k [3, 3, 512] panel 32 lhs {
    %i = kernel.inside (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1) bounds [7, 7]
    %z = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1, d5) if %i else(%z : f32) : tensor<7x7x512xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2 floordiv 32, 1536*d3 + 512*d4 + d5, d2 mod 32) : tensor<16x4608x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<7x7x512xf32>
  kernel.return %y : tensor<7x7x512xf32>
}

// -----

// All rows in one block: each one copies the panels of a right operand that is not packed.
// CHECK-LABEL: kernel.func @copied_once
// CHECK-SAME: launch = #kernel.launch<grid = <32>, scratch = 131072>
// CHECK-SAME: block_rows = 1024, block_columns = 32, block_sums = 1024>
kernel.func @copied_once(%x: tensor<1024x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %y = kernel.contract batch [] m [1024] n [1024] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1024x1024xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<1024x1024xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1024x1024xf32>
  kernel.return %y : tensor<1024x1024xf32>
}

// -----

// A residual is fetched while the sum is at work, unless that is over before it would have come.
// CHECK-LABEL: kernel.func @residual
// CHECK-SAME: prefetch = l2, epilogue_prefetch = l1>
kernel.func @residual(%x: tensor<128x768xf32>, %w: tensor<24x768x32xf32>, %r: tensor<128x768xf32>, %b: tensor<768xf32>) -> tensor<128x768xf32> {
  %y = kernel.contract batch [] m [128] n [768] k [768] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x768xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<24x768x32xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    %d = kernel.read %r (d0, d1, d2) -> (d0, d1) : tensor<128x768xf32> -> f32
    %e = arith.addf %sum, %d : f32
    kernel.yield %e : f32
  } : tensor<128x768xf32>
  kernel.return %y : tensor<128x768xf32>
}

// -----

// CHECK-LABEL: kernel.func @residual_of_short_sums
// CHECK-NOT: prefetch
// CHECK: kernel.contract
kernel.func @residual_of_short_sums(%x: tensor<128x32xf32>, %w: tensor<24x32x32xf32>, %r: tensor<128x768xf32>, %b: tensor<768xf32>) -> tensor<128x768xf32> {
  %y = kernel.contract batch [] m [128] n [768] k [32] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x32xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<24x32x32xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    %d = kernel.read %r (d0, d1, d2) -> (d0, d1) : tensor<128x768xf32> -> f32
    %e = arith.addf %sum, %d : f32
    kernel.yield %e : f32
  } : tensor<128x768xf32>
  kernel.return %y : tensor<128x768xf32>
}

// -----

// Weights that would fit in the cache are not there before 196 rows have read them; 3,136 rows have them there soon.
// CHECK-LABEL: kernel.func @few_pixels
// CHECK-SAME: prefetch = l1>
kernel.func @few_pixels(%x: tensor<196x64xf32>, %w: tensor<12x64x32xf32>) -> tensor<196x384xf32> {
  %y = kernel.contract batch [] m [196] n [384] k [64] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<196x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<12x64x32xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<196x384xf32>
  kernel.return %y : tensor<196x384xf32>
}

// -----

// CHECK-LABEL: kernel.func @many_pixels
// CHECK-NOT: prefetch
// CHECK: kernel.contract
kernel.func @many_pixels(%x: tensor<3136x64xf32>, %w: tensor<12x64x32xf32>) -> tensor<3136x384xf32> {
  %y = kernel.contract batch [] m [3136] n [384] k [64] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<3136x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<12x64x32xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<3136x384xf32>
  kernel.return %y : tensor<3136x384xf32>
}

// -----

// A scale of f64 that all elements have is a scalar, and vectors are as wide as without.
// CHECK-LABEL: kernel.func @scale
// CHECK-SAME: schedule = #cpu.map<vector = [0, 1], lanes = 32
kernel.func @scale(%x: tensor<64x768xf32>, %s: tensor<f64>) -> tensor<64x768xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<64x768xf32> -> f32
    %b = kernel.read %s (d0, d1) -> () : tensor<f64> -> f64
    %third = arith.constant 0.3 : f64
    %c = arith.divf %third, %b : f64
    %d = arith.truncf %c : f64 to f32
    %e = arith.mulf %a, %d : f32
    kernel.yield %e : f32
  } : tensor<64x768xf32>
  kernel.return %y : tensor<64x768xf32>
}

// -----

// What is stored is an element for each lane all the same.
// CHECK-LABEL: kernel.func @fill
// CHECK-SAME: schedule = #cpu.map<vector = [0, 1], lanes = 16
kernel.func @fill() -> tensor<64x768xf64> {
  %y = kernel.map {
    %third = arith.constant 0.3 : f64
    kernel.yield %third : f64
  } : tensor<64x768xf64>
  kernel.return %y : tensor<64x768xf64>
}
