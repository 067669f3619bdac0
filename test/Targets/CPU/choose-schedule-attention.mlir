// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v3},kernel.func(cpu-choose-schedule))' --split-input-file | FileCheck %s

// With 16 registers a panel has three vectors of queries, and the last one what is left: here one.
// CHECK-LABEL: kernel.func @wide
// CHECK-SAME: #cpu.attention<tile_keys = 4, vectors = 3, lanes = 8,
kernel.func @wide(%q: tensor<2x100x64xf32>, %k: tensor<2x70x64xf32>, %v: tensor<2x70x64xf32>) -> tensor<2x100x64xf32> {
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

// Four vectors are two panels of two.
// CHECK-LABEL: kernel.func @few
// CHECK-SAME: #cpu.attention<tile_keys = 5, vectors = 2, lanes = 8,
kernel.func @few(%q: tensor<2x31x64xf32>, %k: tensor<2x70x64xf32>, %v: tensor<2x70x64xf32>) -> tensor<2x31x64xf32> {
  %o = kernel.attention batch [2] m <31> n <70> d <64> dv <64> scale 1.250000e-01 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x31x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x70x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %v (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x70x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x31x64xf32>
  kernel.return %o : tensor<2x31x64xf32>
}

// -----

// Of a number of queries that is known in a run only, all panels are alike.
// CHECK-LABEL: kernel.func @any
// CHECK-SAME: vectors = 2, lanes = 8,
module attributes {sym.symbols = {s0 = {min = 1}}} {
kernel.func @any(%q: tensor<2x?x64xf32, #sym.shape<[2, s0, 64]>>, %k: tensor<2x70x64xf32>, %v: tensor<2x70x64xf32>) -> tensor<2x?x64xf32, #sym.shape<[2, s0, 64]>> {
  %o = kernel.attention batch [2] m <s0> n <70> d <64> dv <64> scale 1.250000e-01 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x?x64xf32, #sym.shape<[2, s0, 64]>> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x70x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %v (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x70x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x?x64xf32, #sym.shape<[2, s0, 64]>>
  kernel.return %o : tensor<2x?x64xf32, #sym.shape<[2, s0, 64]>>
}
}
