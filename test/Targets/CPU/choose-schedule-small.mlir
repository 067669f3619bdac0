// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v4},kernel.func(cpu-choose-schedule))' --split-input-file | FileCheck %s

// Tasks have about the same number of small products.
// CHECK-LABEL: kernel.func @parts_of_tasks
// CHECK-SAME: grid = <6>
// CHECK-SAME: rhs = direct, parts = 167>
kernel.func @parts_of_tasks(%x: tensor<1000x8x8xf32>, %w: tensor<1000x8x8xf32>) -> tensor<1000x8x8xf32> {
  %y = kernel.contract batch [1000] m [8] n [8] k [8] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<1000x8x8xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<1000x8x8xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<1000x8x8xf32>
  kernel.return %y : tensor<1000x8x8xf32>
}

// -----

// Of an unknown number of them, a task has as many as are worth one.
// CHECK-LABEL: kernel.func @parts_of_unknown_number
// CHECK-SAME: grid = <s0 ceildiv 195>
// CHECK-SAME: parts = 195>
kernel.func @parts_of_unknown_number(%x: tensor<?x8x8xf32, #sym.shape<[s0, 8, 8]>>, %w: tensor<?x8x8xf32, #sym.shape<[s0, 8, 8]>>) -> tensor<?x8x8xf32, #sym.shape<[s0, 8, 8]>> attributes {sym.symbols = {s0 = {min = 1}}} {
  %y = kernel.contract batch [s0] m [8] n [8] k [8] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<?x8x8xf32, #sym.shape<[s0, 8, 8]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<?x8x8xf32, #sym.shape<[s0, 8, 8]>> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<?x8x8xf32, #sym.shape<[s0, 8, 8]>>
  kernel.return %y : tensor<?x8x8xf32, #sym.shape<[s0, 8, 8]>>
}

// -----

// Products of unknown size may be long: each is a task.
// CHECK-LABEL: kernel.func @parts_of_unknown_size
// CHECK-NOT: parts
// CHECK: kernel.contract
kernel.func @parts_of_unknown_size(%x: tensor<12x?x8xf32, #sym.shape<[12, s0, 8]>>, %w: tensor<12x8x8xf32>) -> tensor<12x?x8xf32, #sym.shape<[12, s0, 8]>> attributes {sym.symbols = {s0 = {min = 1}}} {
  %y = kernel.contract batch [12] m [s0] n [8] k [8] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<12x?x8xf32, #sym.shape<[12, s0, 8]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<12x8x8xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<12x?x8xf32, #sym.shape<[12, s0, 8]>>
  kernel.return %y : tensor<12x?x8xf32, #sym.shape<[12, s0, 8]>>
}

// -----

// Four columns leave most of a vector to other rows.
// CHECK-LABEL: kernel.func @few_columns
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 20, vectors = 1, lanes = 4, {{.*}}vector_rows = 4>
kernel.func @few_columns(%x: tensor<64x20x8xf32>, %w: tensor<64x8x4xf32>) -> tensor<64x20x4xf32> {
  %y = kernel.contract batch [64] m [20] n [4] k [8] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<64x20x8xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<64x8x4xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x20x4xf32>
  kernel.return %y : tensor<64x20x4xf32>
}

// -----

// Only half as many rows divide the number of them.
// CHECK-LABEL: kernel.func @few_columns_of_six_rows
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 6, vectors = 1, lanes = 4, {{.*}}vector_rows = 2>
kernel.func @few_columns_of_six_rows(%x: tensor<64x6x8xf32>, %w: tensor<64x8x4xf32>) -> tensor<64x6x4xf32> {
  %y = kernel.contract batch [64] m [6] n [4] k [8] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<64x6x8xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<64x8x4xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x6x4xf32>
  kernel.return %y : tensor<64x6x4xf32>
}

// -----

// Steps of the sum that are left over, and more columns than a shuffle is fast for.
// CHECK-LABEL: kernel.func @few_columns_of_six_steps
// CHECK-NOT: vector_rows
// CHECK: kernel.func @eight_columns
// CHECK-NOT: vector_rows
// CHECK: kernel.contract
kernel.func @few_columns_of_six_steps(%x: tensor<64x8x6xf32>, %w: tensor<64x6x4xf32>) -> tensor<64x8x4xf32> {
  %y = kernel.contract batch [64] m [8] n [4] k [6] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<64x8x6xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<64x6x4xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x8x4xf32>
  kernel.return %y : tensor<64x8x4xf32>
}

kernel.func @eight_columns(%x: tensor<64x8x8xf32>, %w: tensor<64x8x8xf32>) -> tensor<64x8x8xf32> {
  %y = kernel.contract batch [64] m [8] n [8] k [8] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<64x8x8xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<64x8x8xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x8x8xf32>
  kernel.return %y : tensor<64x8x8xf32>
}

// -----

// Windows that move by a page each are in one set of the cache: one image row of 7 in a tile, not two.
// CHECK-LABEL: kernel.func @page_apart
// CHECK-SAME: tile_rows = 7,
kernel.func @page_apart(%x: tensor<14x14x512xf32>, %w: tensor<16x4608x32xf32>) -> tensor<7x7x512xf32> {
  %y = kernel.contract batch [] m [7, 7] n [512] k [3, 3, 512] panel 32 lhs {
    %in = kernel.inside (d0, d1, d2, d3, d4, d5) -> (2*d0 + d3 - 1, 2*d1 + d4 - 1) bounds [14, 14]
    %zero = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (2*d0 + d3 - 1, 2*d1 + d4 - 1, d5) if %in else(%zero : f32) : tensor<14x14x512xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2 floordiv 32, 1536*d3 + 512*d4 + d5, d2 mod 32) : tensor<16x4608x32xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<7x7x512xf32>
  kernel.return %y : tensor<7x7x512xf32>
}

// -----

// Rows of a residual that are a page apart, behind a short sum, and rows that are not.
// CHECK-LABEL: kernel.func @residual_rows
// CHECK-SAME: tile_rows = 8,
kernel.func @residual_rows(%x: tensor<196x256xf32>, %w: tensor<32x256x32xf32>, %r: tensor<196x1024xf32>) -> tensor<196x1024xf32> {
  %y = kernel.contract batch [] m [196] n [1024] k [256] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<196x256xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<32x256x32xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    %d = kernel.read %r (d0, d1, d2) -> (d0, d1) : tensor<196x1024xf32> -> f32
    %e = arith.addf %sum, %d : f32
    kernel.yield %e : f32
  } : tensor<196x1024xf32>
  kernel.return %y : tensor<196x1024xf32>
}

// -----

// CHECK-LABEL: kernel.func @other_residual_rows
// CHECK-SAME: tile_rows = 12,
kernel.func @other_residual_rows(%x: tensor<196x256xf32>, %w: tensor<33x256x32xf32>, %r: tensor<196x1056xf32>) -> tensor<196x1056xf32> {
  %y = kernel.contract batch [] m [196] n [1056] k [256] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<196x256xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<33x256x32xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    %d = kernel.read %r (d0, d1, d2) -> (d0, d1) : tensor<196x1056xf32> -> f32
    %e = arith.addf %sum, %d : f32
    kernel.yield %e : f32
  } : tensor<196x1056xf32>
  kernel.return %y : tensor<196x1056xf32>
}
