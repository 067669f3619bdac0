// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v3},kernel.func(cpu-choose-schedule))' --split-input-file --verify-diagnostics

// expected-error@+1 {{cannot be run with #cpu.map<vector = [0], lanes = 8, columns = 64, streams = true>: its reductions are not all of one dim and of numbers that differ from column to column}}
kernel.func @no_reduction(%x: tensor<100xf32>) -> tensor<100xf32> attributes {schedule = #cpu.map<vector = [0], lanes = 8, columns = 64, streams = true>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<100xf32> -> f32
    kernel.yield %a : f32
  } : tensor<100xf32>
  kernel.return %y : tensor<100xf32>
}

// -----

// expected-error@+1 {{its reductions are not all of one dim and of numbers that differ from column to column}}
kernel.func @two_dims(%x: tensor<3x4x100xf32>) -> tensor<100xf32> attributes {schedule = #cpu.map<vector = [0], lanes = 8, columns = 64, streams = true>} {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %sum = kernel.reduce [3, 4] init(%zero : f32) {
      %a = kernel.read %x (d0, d1, d2) -> (d1, d2, d0) : tensor<3x4x100xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    kernel.yield %sum : f32
  } : tensor<100xf32>
  kernel.return %y : tensor<100xf32>
}
