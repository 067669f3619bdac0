// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v4},kernel.func(cpu-choose-schedule))' --split-input-file --verify-diagnostics

kernel.func @type(%x: tensor<8xf128>) -> tensor<8xf128> {
  %y = kernel.map {
    // expected-error @below {{no code is generated for values of type 'f128'}}
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf128> -> f128
    kernel.yield %a : f128
  } : tensor<8xf128>
  kernel.return %y : tensor<8xf128>
}

// -----

// expected-error @below {{cannot be run with #cpu.map<vector = [1], lanes = 8>: its dims are not whole loops}}
kernel.func @no_such_loop(%x: tensor<8xf32>) -> tensor<8xf32> attributes {schedule = #cpu.map<vector = [1], lanes = 8>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// -----

// expected-error @below {{cannot be run with #cpu.map<vector = [1], lanes = 8, turn = [1]>: what it turns is no other whole loop}}
kernel.func @turned_columns(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {schedule = #cpu.map<vector = [1], lanes = 8, turn = [1]>} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<8x8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8x8xf32>
  kernel.return %y : tensor<8x8xf32>
}

// -----

// expected-error @below {{its body is too long to be turned, or has values that are not shuffled}}
kernel.func @turned_function(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {schedule = #cpu.map<vector = [1], lanes = 8, turn = [0]>} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<8x8xf32> -> f32
    %e = math.exp %a : f32
    kernel.yield %e : f32
  } : tensor<8x8xf32>
  kernel.return %y : tensor<8x8xf32>
}

// -----

// expected-error @below {{cannot be run with #cpu.map<vector = [1], lanes = 8, steps = 4>: there is no window}}
kernel.func @no_window(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {schedule = #cpu.map<vector = [1], lanes = 8, steps = 4>} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<8x8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8x8xf32>
  kernel.return %y : tensor<8x8xf32>
}

// -----

// expected-error @below {{reduce_copies = [1, 1]>: it has 1 reductions that are the same for all columns}}
kernel.func @other_reductions(%x: tensor<8x8xf32>) -> tensor<8xf32> attributes {schedule = #cpu.map<reduce_lanes = [8, 8], reduce_copies = [1, 1]>} {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [8] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x8xf32> -> f32
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

// expected-error @below {{reduce_copies = [1]>: a reduction has values that vectors do not hold}}
kernel.func @complex_lanes(%x: tensor<8x8xcomplex<f32>>) -> tensor<8xcomplex<f32>> attributes {schedule = #cpu.map<reduce_lanes = [8], reduce_copies = [1]>} {
  %y = kernel.map {
    %zero = complex.constant [0.0 : f32, 0.0 : f32] : complex<f32>
    %s = kernel.reduce [8] init(%zero : complex<f32>) {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x8xcomplex<f32>> -> complex<f32>
      kernel.yield %a : complex<f32>
    } combine {
    ^bb0(%a: complex<f32>, %b: complex<f32>):
      %c = complex.add %a, %b : complex<f32>
      kernel.yield %c : complex<f32>
    } : complex<f32>
    kernel.yield %s : complex<f32>
  } : tensor<8xcomplex<f32>>
  kernel.return %y : tensor<8xcomplex<f32>>
}

// -----

// expected-error @below {{has schedule #cuda.map<threads = 256>, expected #cpu.map}}
kernel.func @of_another_target(%x: tensor<8xf32>) -> tensor<8xf32> attributes {schedule = #cuda.map<threads = 256>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.func @panel(%x: tensor<64x64xf32>, %w: tensor<4x64x16xf32>) -> tensor<64x64xf32> attributes {schedule = #cpu.contract<tile_rows = 4, vectors = 2, lanes = 16, block_rows = 8, block_columns = 16, block_sums = 64>} {
  // expected-error @below {{the right operand has panels of 16 columns}}
  %y = kernel.contract batch [] m [64] n [64] k [64] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<4x64x16xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

// A bias is the same for all rows.
kernel.func @nothing_to_fetch(%x: tensor<64x64xf32>, %w: tensor<4x64x16xf32>, %b: tensor<64xf32>) -> tensor<64x64xf32> attributes {schedule = #cpu.contract<tile_rows = 4, vectors = 1, lanes = 16, block_rows = 8, block_columns = 16, block_sums = 64, epilogue_prefetch = l1>} {
  // expected-error @below {{the epilogue reads nothing of each row and column}}
  %y = kernel.contract batch [] m [64] n [64] k [64] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<4x64x16xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    %c = kernel.read %b (d0, d1, d2) -> (d1) : tensor<64xf32> -> f32
    %d = arith.addf %sum, %c : f32
    kernel.yield %d : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

kernel.func @cut_sum(%x: tensor<64x64xf32>, %w: tensor<4x64x16xf32>) -> tensor<64x64xf32> attributes {schedule = #cpu.contract<tile_rows = 4, vectors = 1, lanes = 16, block_rows = 8, block_columns = 16, block_sums = 32>} {
  // expected-error @below {{the sum is cut, and the epilogue is on registers}}
  %y = kernel.contract batch [] m [64] n [64] k [64] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<4x64x16xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

kernel.func @no_window_of_rows(%x: tensor<64x64xf32>, %w: tensor<4x64x16xf32>) -> tensor<64x64xf32> attributes {schedule = #cpu.contract<tile_rows = 4, vectors = 1, lanes = 16, block_rows = 8, block_columns = 16, block_sums = 64, lhs = window>} {
  // expected-error @below {{has no left operand that can be read as lhs = window}}
  %y = kernel.contract batch [] m [64] n [64] k [64] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<4x64x16xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

kernel.func @no_tiles_to_share(%x: tensor<64x64xf32>, %w: tensor<4x64x16xf32>) -> tensor<64x64xf32> attributes {schedule = #cpu.contract<tile_rows = 4, vectors = 1, lanes = 16, block_rows = 8, block_columns = 16, block_sums = 64, share_tiles = true>} {
  // expected-error @below {{there are no tiles of unknown height to share code}}
  %y = kernel.contract batch [] m [64] n [64] k [64] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<4x64x16xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

kernel.func @axes_of_a_block(%x: tensor<64x64xf32>, %w: tensor<4x64x16xf32>) -> tensor<64x64xf32> attributes {schedule = #cpu.contract<tile_rows = 4, vectors = 1, lanes = 16, block_rows = 8, block_columns = 16, block_sums = 64, block_axes = 2>} {
  // expected-error @below {{tiles and blocks can lie on 1 axes of rows}}
  %y = kernel.contract batch [] m [64] n [64] k [64] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<4x64x16xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

kernel.func @not_along_the_sum(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {schedule = #cpu.contract<tile_rows = 4, vectors = 1, lanes = 16, block_rows = 8, block_columns = 16, block_sums = 64, turn = sums, tile_sums = 16>} {
  // expected-error @below {{the left operand does not lie along the sum}}
  %y = kernel.contract batch [] m [64] n [64] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

kernel.func @packed_and_turned(%x: tensor<64x64xf32>, %w: tensor<4x64x16xf32>) -> tensor<64x64xf32> attributes {schedule = #cpu.contract<tile_rows = 4, vectors = 1, lanes = 16, block_rows = 8, block_columns = 16, block_sums = 64, turn = rhs>} {
  // expected-error @below {{the right operand is packed, and need not be turned}}
  %y = kernel.contract batch [] m [64] n [64] k [64] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<4x64x16xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

kernel.func @tile_of_an_axis(%x: tensor<64x64xf32>, %w: tensor<4x64x16xf32>) -> tensor<8x8x64xf32> attributes {schedule = #cpu.contract<tile_rows = 4, vectors = 1, lanes = 16, block_rows = 8, block_columns = 16, block_sums = 64, tile_axes = 2, block_axes = 2>} {
  // expected-error @below {{a tile does not hold all of the last axis of rows}}
  %y = kernel.contract batch [] m [8, 8] n [64] k [64] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (8*d1 + d0, d3) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2, d3) -> (d2 floordiv 16, d3, d2 mod 16) : tensor<4x64x16xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<8x8x64xf32>
  kernel.return %y : tensor<8x8x64xf32>
}

// -----

module attributes {sym.symbols = {s0 = {min = 1, max = 4096}}} {
kernel.func @many_heights(%x: tensor<?x64xf32, #sym.shape<[s0, 64]>>, %w: tensor<4x64x16xf32>) -> tensor<?x64xf32, #sym.shape<[s0, 64]>> attributes {schedule = #cpu.contract<tile_rows = 40, vectors = 1, lanes = 16, block_rows = 8, block_columns = 16, block_sums = 64, share_tiles = true>} {
  // expected-error @below {{tiles of unknown height have up to 32 steps}}
  %y = kernel.contract batch [] m [s0] n [64] k [64] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<?x64xf32, #sym.shape<[s0, 64]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<4x64x16xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<?x64xf32, #sym.shape<[s0, 64]>>
  kernel.return %y : tensor<?x64xf32, #sym.shape<[s0, 64]>>
}
}

// -----

// expected-error @below {{#codegen.sort<lanes = 8, digits_from = 64, pick_from = 256> picks the first of rows that are wanted whole}}
kernel.func @no_first(%x: tensor<4x512xi64>) -> (tensor<4x512xi64>, tensor<4x512xi64>, tensor<4x512xi64>) attributes {schedule = #codegen.sort<lanes = 8, digits_from = 64, pick_from = 256>} {
  %p, %k, %s = kernel.sort {
    %key = kernel.read %x (d0, d1) -> (d0, d1) : tensor<4x512xi64> -> i64
    kernel.yield %key : i64
  } : tensor<4x512xi64>, tensor<4x512xi64>, tensor<4x512xi64>
  kernel.return %p, %k, %s : tensor<4x512xi64>, tensor<4x512xi64>, tensor<4x512xi64>
}

// -----

// expected-error @below {{candidates = 20> has too few candidates for the first 20}}
kernel.func @few_candidates(%x: tensor<4x512xi64>) -> (tensor<4x512xi64>, tensor<4x512xi64>, tensor<4x512xi64>) attributes {schedule = #codegen.sort<digits_from = 64, pick_from = 256, candidates = 20>} {
  %p, %k, %s = kernel.sort attributes {first = 20 : i64} {
    %key = kernel.read %x (d0, d1) -> (d0, d1) : tensor<4x512xi64> -> i64
    kernel.yield %key : i64
  } : tensor<4x512xi64>, tensor<4x512xi64>, tensor<4x512xi64>
  kernel.return %p, %k, %s : tensor<4x512xi64>, tensor<4x512xi64>, tensor<4x512xi64>
}

// -----

// expected-error @below {{#codegen.scan<lanes = 8> has lanes, but the scan has no columns}}
kernel.func @no_columns(%x: tensor<3000xi32>) -> tensor<3000xi32> attributes {schedule = #codegen.scan<lanes = 8>} {
  %y = kernel.scan dim 0 init {
    %zero = arith.constant 0 : i32
    kernel.yield %zero : i32
  } body {
    %v = kernel.read %x (d0) -> (d0) : tensor<3000xi32> -> i32
    kernel.yield %v : i32
  } combine {
  ^bb0(%sum: i32, %next: i32):
    %s = arith.addi %sum, %next : i32
    kernel.yield %s : i32
  } finish {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<3000xi32>
  kernel.return %y : tensor<3000xi32>
}

// -----

kernel.func @right_operand_along_sum(%x: tensor<8x4xf32>, %w: tensor<32x4xf32>) -> tensor<8x32xf32> attributes {schedule = #cpu.contract<tile_rows = 8, vectors = 2, lanes = 16, block_rows = 8, block_columns = 32, block_sums = 4, rhs = direct>} {
  // expected-error @below {{the right operand is not one read whose columns lie next to each other}}
  %y = kernel.contract batch [] m [8] n [32] k [4] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<32x4xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<8x32xf32>
  kernel.return %y : tensor<8x32xf32>
}

// -----

module attributes {sym.symbols = {s0 = {min = 2, max = 100}}} {
kernel.func @unknown_rows(%x: tensor<?x4xf32, #sym.shape<[s0, 4]>>, %w: tensor<4x32xf32>) -> tensor<?x32xf32, #sym.shape<[s0, 32]>> attributes {schedule = #cpu.contract<tile_rows = 8, vectors = 2, lanes = 16, block_rows = 8, block_columns = 32, block_sums = 4, rhs = direct>} {
  // expected-error @below {{tiles of unknown height read the right operand in panels}}
  %y = kernel.contract batch [] m [s0] n [32] k [4] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<?x4xf32, #sym.shape<[s0, 4]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<4x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<?x32xf32, #sym.shape<[s0, 32]>>
  kernel.return %y : tensor<?x32xf32, #sym.shape<[s0, 32]>>
}
}

// -----

kernel.func @winograd_lanes(%x: tensor<8x8x4xf32>, %u: tensor<1x64x8xf32>) -> tensor<6x6x4xf32> attributes {schedule = #cpu.winograd<tile_rows = 3, tiles = 9, lanes = 16>} {
  // expected-error@+1 {{has panels of 8, expected whole vectors of 16}}
  %y = kernel.winograd tile 2 panel 8 batch [] pixels [6, 6] n 4 c 4 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6, d7) -> (d3, d4, d5) : tensor<8x8x4xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %u (d0, d1, d2, d3, d4, d5, d6, d7) -> (0, 16*d6 + 4*d7 + d5, d2) : tensor<1x64x8xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<6x6x4xf32>
  kernel.return %y : tensor<6x6x4xf32>
}
