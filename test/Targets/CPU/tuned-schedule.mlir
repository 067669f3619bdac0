// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v4},kernel.func(cpu-choose-schedule))' | FileCheck %s
// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v4 tune=vector_bytes=32,l1=16384,l2=262144,tile_sums=16,task_time=1000,task_cycles=65536,fma_units=1,fma_latency=2},kernel.func(cpu-choose-schedule))' | FileCheck %s --check-prefix=TUNED

// Numbers of the CPU that are named change plans. Rows of 8192 elements share a set of level 1 cache: a tile has no more
// of them than that has ways.

// CHECK-LABEL: @product(
// CHECK-SAME: #cpu.contract<tile_rows = 8, vectors = 2, lanes = 16, block_rows = 256, block_columns = 64, block_sums = 4096,
// TUNED-LABEL: @product(
// TUNED-SAME: #cpu.contract<tile_rows = 4, vectors = 4, lanes = 8, block_rows = 256, block_columns = 64, block_sums = 1024,
kernel.func @product(%x: tensor<512x8192xf32>, %w: tensor<32x8192x32xf32>) -> tensor<512x1024xf32> {
  %y = kernel.contract batch [] m [512] n [1024] k [8192] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<512x8192xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<32x8192x32xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<512x1024xf32>
  kernel.return %y : tensor<512x1024xf32>
}

// CHECK-LABEL: @matmul(
// CHECK-SAME: #cpu.contract<tile_rows = 8, vectors = 2, lanes = 16, block_rows = 256, block_columns = 32, block_sums = 4096,
// TUNED-LABEL: @matmul(
// TUNED-SAME: #cpu.contract<tile_rows = 4, vectors = 2, lanes = 8, block_rows = 256, block_columns = 16, block_sums = 2048,
kernel.func @matmul(%x: tensor<512x8192xf32>, %w: tensor<8192x1024xf32>) -> tensor<512x1024xf32> {
  %y = kernel.contract batch [] m [512] n [1024] k [8192] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<512x8192xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<8192x1024xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<512x1024xf32>
  kernel.return %y : tensor<512x1024xf32>
}

// CHECK-LABEL: @bias(
// CHECK-SAME: #cpu.map<vector = [1], lanes = 32, rows = 79>
// TUNED-LABEL: @bias(
// TUNED-SAME: #cpu.map<vector = [1], lanes = 16, rows = 171>
kernel.func @bias(%x: tensor<1024x768xf32>, %b: tensor<768xf32>) -> tensor<1024x768xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<1024x768xf32> -> f32
    %c = kernel.read %b (d0, d1) -> (d1) : tensor<768xf32> -> f32
    %s = arith.addf %a, %c : f32
    kernel.yield %s : f32
  } : tensor<1024x768xf32>
  kernel.return %y : tensor<1024x768xf32>
}

// CHECK-LABEL: @attention(
// CHECK-SAME: #cpu.attention<tile_keys = 8, vectors = 2, lanes = 16, block_panels = 3, block_keys = 128>
// TUNED-LABEL: @attention(
// TUNED-SAME: #cpu.attention<tile_keys = 8, vectors = 2, lanes = 8, block_panels = 8, block_keys = 64, tile_values = 8>
kernel.func @attention(%q: tensor<2x512x64xf32>, %k: tensor<2x512x64xf32>, %v: tensor<2x512x64xf32>) -> tensor<2x512x64xf32> {
  %o = kernel.attention batch [2] m <512> n <512> d <64> dv <64> scale 1.250000e-01 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x512x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x512x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %v (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x512x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x512x64xf32>
  kernel.return %o : tensor<2x512x64xf32>
}

// CHECK-LABEL: @attention_of_few_queries(
// CHECK-SAME: #cpu.attention_by_query<lanes = 16, block_keys = 512>
// TUNED-LABEL: @attention_of_few_queries(
// TUNED-SAME: #cpu.attention_by_query<lanes = 8, block_keys = 256, sums = 2>
kernel.func @attention_of_few_queries(%q: tensor<2x2x64xf32>, %k: tensor<2x512x64xf32>, %v: tensor<2x512x64xf32>) -> tensor<2x2x64xf32> {
  %o = kernel.attention batch [2] m <2> n <512> d <64> dv <64> scale 1.250000e-01 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x2x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x512x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %v (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x512x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x2x64xf32>
  kernel.return %o : tensor<2x2x64xf32>
}

// CHECK-LABEL: @sum(
// CHECK-SAME: reduce_copies = [4]
// TUNED-LABEL: @sum(
// TUNED-SAME: reduce_copies = [2]
kernel.func @sum(%x: tensor<8x768xf32>) -> tensor<8xf32> {
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
