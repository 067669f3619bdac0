// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=sapphirerapids},kernel.func(cpu-choose-schedule))' --split-input-file --verify-diagnostics

// A third tile would begin before the rows that are there, or read past them.
kernel.func @low_tiles(%x: tensor<33x16xi32>, %w: tensor<1x16x32xi32>) -> tensor<33x32xi32> attributes {schedule = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 33, block_columns = 32, block_sums = 16, epilogue = memory, unit = tiles>} {
  // expected-error @below {{: some of several tiles would have fewer than 16 rows}}
  %r = kernel.contract batch [] m [33] n [32] k [16] panel 32 bytes 4 lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<33x16xi32> -> i32
    kernel.yield %0 : i32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<1x16x32xi32> -> i32
    kernel.yield %0 : i32
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<33x32xi32>
  kernel.return %r : tensor<33x32xi32>
}

// -----

// Two registers hold no third row of an image.
kernel.func @three_rows(%x: tensor<11x9x16xi32>, %w: tensor<1x144x32xi32>) -> tensor<9x7x32xi32> attributes {schedule = #cpu.contract<tile_rows = 21, vectors = 2, lanes = 16, block_rows = 63, block_columns = 32, block_sums = 144, epilogue = memory, tile_axes = 2, block_axes = 2, unit = tiles>} {
  // expected-error @below {{: a tile is not one or two steps of up to 16 rows}}
  %r = kernel.contract batch [] m [9, 7] n [32] k [3, 3, 16] panel 32 bytes 4 lhs {
    %0 = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3, d1 + d4, d5) : tensor<11x9x16xi32> -> i32
    kernel.yield %0 : i32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2 floordiv 32, 48*d3 + 16*d4 + d5, d2 mod 32) : tensor<1x144x32xi32> -> i32
    kernel.yield %0 : i32
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<9x7x32xi32>
  kernel.return %r : tensor<9x7x32xi32>
}

// -----

kernel.func @cut_sum(%x: tensor<33x64xi32>, %w: tensor<1x64x32xi32>) -> tensor<33x32xi32> attributes {schedule = #cpu.contract<tile_rows = 32, vectors = 2, lanes = 16, block_rows = 33, block_columns = 32, block_sums = 32, epilogue = memory, unit = tiles>} {
  // expected-error @below {{: the sum is cut, and tiles of sums are not added to others}}
  %r = kernel.contract batch [] m [33] n [32] k [64] panel 32 bytes 4 lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<33x64xi32> -> i32
    kernel.yield %0 : i32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<1x64x32xi32> -> i32
    kernel.yield %0 : i32
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<33x32xi32>
  kernel.return %r : tensor<33x32xi32>
}

// -----

kernel.func @floats(%x: tensor<33x16xf32>, %w: tensor<1x16x32xf32>) -> tensor<33x32xf32> attributes {schedule = #cpu.contract<tile_rows = 32, vectors = 2, lanes = 16, block_rows = 33, block_columns = 32, block_sums = 16, epilogue = memory, unit = tiles>} {
  // expected-error @below {{: the CPU has no tiles for these types}}
  %r = kernel.contract batch [] m [33] n [32] k [16] panel 32 lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<33x16xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<1x16x32xf32> -> f32
    kernel.yield %0 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<33x32xf32>
  kernel.return %r : tensor<33x32xf32>
}
