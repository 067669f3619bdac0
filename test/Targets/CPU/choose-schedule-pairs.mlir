// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=znver4},kernel.func(cpu-choose-schedule))' --split-input-file --verify-diagnostics | FileCheck %s

// Each task widens panels of small integers to pairs: there is memory for one (256 pairs of 32 columns), the sum is not cut, and nothing is
// fetched ahead.
// CHECK-LABEL: kernel.func @many_rows
// CHECK-SAME: scratch = 32768
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 132, block_columns = 64, block_sums = 512>
kernel.func @many_rows(%x: tensor<512x512xbf16>, %w: tensor<8x512x32xi8>) -> tensor<512x256xbf16> {
  %y = kernel.contract batch [] m [512] n [256] k [512] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<512x512xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<8x512x32xi8> -> i8
    %c = arith.sitofp %b : i8 to f32
    %d = arith.truncf %c : f32 to bf16
    kernel.yield %d : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %e = arith.truncf %sum : f32 to bf16
    kernel.yield %e : bf16
  } : tensor<512x256xbf16>
  kernel.return %y : tensor<512x256xbf16>
}

// -----

// A few look words of four bits up: no memory, but registers for the sums of a group beside those of all.
// CHECK-LABEL: kernel.func @few_rows
// CHECK-NOT: scratch
// CHECK-SAME: schedule = #cpu.contract<tile_rows = 5, vectors = 2, lanes = 16, block_rows = 5, {{.*}}block_sums = 512>
kernel.func @few_rows(%x: tensor<5x512xbf16>, %w: tensor<8x64x32xi32>, %s: tensor<8x16x32xf32>) -> tensor<5x256xbf16> {
  %y = kernel.contract batch [] m [5] n [256] k [16, 4, 8] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, 32*d2 + 8*d3 + d4) : tensor<5x512xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d1 floordiv 32, 4*d2 + d3, d1 mod 32) : tensor<8x64x32xi32> -> i32
    %i = kernel.index (d0, d1, d2, d3, d4) -> (28*(d4 floordiv 2) - 16*d4 + 28)
    %by = arith.trunci %i : i64 to i32
    %up = arith.shli %b, %by : i32
    %top = arith.constant 28 : i32
    %q = arith.shrsi %up, %top : i32
    %c = arith.sitofp %q : i32 to f32
    %scale = kernel.read %s (d0, d1, d2, d3, d4) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<8x16x32xf32> -> f32
    %p = arith.mulf %c, %scale : f32
    %d = arith.truncf %p : f32 to bf16
    kernel.yield %d : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %e = arith.truncf %sum : f32 to bf16
    kernel.yield %e : bf16
  } : tensor<5x256xbf16>
  kernel.return %y : tensor<5x256xbf16>
}

// -----

kernel.func @cut(%x: tensor<64x512xbf16>, %w: tensor<1x512x32xi8>) -> tensor<64x32xbf16> attributes {schedule = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 64, block_columns = 32, block_sums = 256, epilogue = memory>} {
  // expected-error @below {{cannot be run with #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 64, block_columns = 32, block_sums = 256, epilogue = memory>: the sum is cut, and panels are widened as a whole}}
  %y = kernel.contract batch [] m [64] n [32] k [512] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x512xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<1x512x32xi8> -> i8
    %c = arith.sitofp %b : i8 to f32
    %d = arith.truncf %c : f32 to bf16
    kernel.yield %d : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %e = arith.truncf %sum : f32 to bf16
    kernel.yield %e : bf16
  } : tensor<64x32xbf16>
  kernel.return %y : tensor<64x32xbf16>
}
