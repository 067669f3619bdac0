// RUN: kiln-opt %s --pass-pipeline='builtin.module(kernel.func(cpu-choose-schedule{cpu=x86-64-v4}))' --split-input-file | FileCheck %s

// The innermost dim in vectors of two registers; the work makes one task.
// CHECK-LABEL: kernel.func @bias
// CHECK-SAME: grid = #sym.expr<1>
// CHECK-SAME: schedule = #kernel.schedule<tile = [32, 1, 1], block = [8, 0], lanes = 32, stage = false>
// CHECK-SAME: scratch = 0 : i64
kernel.func @bias(%x: tensor<8x768xf32>, %b: tensor<768xf32>) -> tensor<8x768xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
    %c = kernel.read %b (d0, d1) -> (d1) : tensor<768xf32> -> f32
    %s = arith.addf %a, %c : f32
    kernel.yield %s : f32
  } : tensor<8x768xf32>
  kernel.return %y : tensor<8x768xf32>
}

// -----

// A sum along rows is vectorised itself: the rows stay scalar.
// CHECK-LABEL: kernel.func @row_sums
// CHECK-SAME: tile = [1]
kernel.func @row_sums(%x: tensor<8x768xf32>) -> tensor<8xf32> {
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

// -----

// A long vector is cut; the number of tasks is an expression.
// CHECK-LABEL: kernel.func @long
// CHECK-SAME: grid = #sym.expr<s0 ceildiv
module attributes {torch.symbols = {s0 = {min = 1, max = 1000000}}} {
kernel.func @long(%x: tensor<?x4096xf32, #sym.shape<[s0, 4096]>>) -> tensor<?x4096xf32, #sym.shape<[s0, 4096]>> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, 4095 - d1) : tensor<?x4096xf32, #sym.shape<[s0, 4096]>> -> f32
    kernel.yield %a : f32
  } : tensor<?x4096xf32, #sym.shape<[s0, 4096]>>
  kernel.return %y : tensor<?x4096xf32, #sym.shape<[s0, 4096]>>
}
}
