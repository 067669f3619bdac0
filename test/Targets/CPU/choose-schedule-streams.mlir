// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v3},kernel.func(cpu-choose-schedule))' --split-input-file | FileCheck %s

// Few rows read a matrix whose rows share sets of the caches eight rows at a time, far along each of them.
// CHECK-LABEL: kernel.func @matrix
// CHECK-SAME: vectors = 2, lanes = 8, block_rows = 4, block_columns = 512, block_sums = 8, epilogue = memory, rhs = direct>
kernel.func @matrix(%x: tensor<4x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<4x1024xf32> {
  %y = kernel.contract batch [] m [4] n [1024] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4x1024xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<1024x1024xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<4x1024xf32>
  kernel.return %y : tensor<4x1024xf32>
}

// -----

// So they do planes of an image.
// CHECK-LABEL: kernel.func @planes
// CHECK-SAME: vectors = 2, lanes = 8, block_rows = 2, block_columns = 4096, block_sums = 8, epilogue = memory, rhs = direct>
kernel.func @planes(%x: tensor<2x64xf32>, %w: tensor<64x256x256xf32>) -> tensor<2x256x256xf32> {
  %y = kernel.contract batch [] m [2] n [256, 256] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d3) : tensor<2x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3) -> (d3, d1, d2) : tensor<64x256x256xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<2x256x256xf32>
  kernel.return %y : tensor<2x256x256xf32>
}

// -----

// Of a matrix beyond all caches rows may lie anywhere, and there may be one row that multiplies it.
// CHECK-LABEL: kernel.func @large
// CHECK-SAME: vectors = 2, {{.*}} block_sums = 8,
kernel.func @large(%x: tensor<1x2000xf32>, %w: tensor<2000x2000xf32>) -> tensor<1x2000xf32> {
  %y = kernel.contract batch [] m [1] n [2000] k [2000] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x2000xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<2000x2000xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<1x2000xf32>
  kernel.return %y : tensor<1x2000xf32>
}

// -----

// Rows that do not share sets are read in panels of all steps, and so is what level 2 cache holds.
// CHECK-LABEL: kernel.func @other_sets
// CHECK-SAME: block_sums = 1000, rhs = direct>
kernel.func @other_sets(%x: tensor<4x1000xf32>, %w: tensor<1000x1000xf32>) -> tensor<4x1000xf32> {
  %y = kernel.contract batch [] m [4] n [1000] k [1000] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4x1000xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<1000x1000xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<4x1000xf32>
  kernel.return %y : tensor<4x1000xf32>
}

// -----

// CHECK-LABEL: kernel.func @in_cache
// CHECK-SAME: block_sums = 256, rhs = direct>
kernel.func @in_cache(%x: tensor<4x256xf32>, %w: tensor<256x256xf32>) -> tensor<4x256xf32> {
  %y = kernel.contract batch [] m [4] n [256] k [256] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4x256xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<256x256xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<4x256xf32>
  kernel.return %y : tensor<4x256xf32>
}
