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
