// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v3},kernel.func(cpu-choose-schedule))' --split-input-file | FileCheck %s

// The rows of a block stay in level 2 cache for its 16 panels: of 256 rows, pieces of 512 steps. A piece of a panel alone could be twice as long.
// CHECK-LABEL: kernel.func @many_panels
// CHECK-SAME: block_rows = 256, block_columns = 256, block_sums = 512, epilogue = memory
kernel.func @many_panels(%x: tensor<130x130x2048xf32>, %w: tensor<32x18432x16xf32>) -> tensor<128x128x512xf32> {
  %y = kernel.contract batch [] m [128, 128] n [512] k [3, 3, 2048] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3, d1 + d4, d5) : tensor<130x130x2048xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2 floordiv 16, 6144*d3 + 2048*d4 + d5, d2 mod 16) : tensor<32x18432x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<128x128x512xf32>
  kernel.return %y : tensor<128x128x512xf32>
}

// -----

// Two panels read the rows twice, and pieces are as long as the panel's allow.
// CHECK-LABEL: kernel.func @few_panels
// CHECK-SAME: block_columns = 32, block_sums = 1024, epilogue = memory
kernel.func @few_panels(%x: tensor<18x18x1024xf32>, %w: tensor<64x9216x16xf32>) -> tensor<16x16x1024xf32> {
  %y = kernel.contract batch [] m [16, 16] n [1024] k [3, 3, 1024] panel 16 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3, d1 + d4, d5) : tensor<18x18x1024xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2 floordiv 16, 3072*d3 + 1024*d4 + d5, d2 mod 16) : tensor<64x9216x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<16x16x1024xf32>
  kernel.return %y : tensor<16x16x1024xf32>
}
