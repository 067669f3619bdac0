// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v4},kernel.func(cpu-choose-schedule))' --remarks-filter=cpu-choose-schedule -o /dev/null 2>&1 | FileCheck %s

// CHECK: cpu-choose-schedule | Function=bias
// CHECK-SAME: Cycles={{[1-9][0-9]*}}, Reason="one element at a time would take {{[1-9][0-9]*}} cycles", Remark="kernel @bias: #cpu.map<
kernel.func @bias(%x: tensor<8x768xf32>, %b: tensor<768xf32>) -> tensor<8x768xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
    %c = kernel.read %b (d0, d1) -> (d1) : tensor<768xf32> -> f32
    %s = arith.addf %a, %c : f32
    kernel.yield %s : f32
  } : tensor<8x768xf32>
  kernel.return %y : tensor<8x768xf32>
}

// CHECK: cpu-choose-schedule | Function=few_rows
// CHECK-SAME: Reason="worth 7 tasks; a vector of the right operand takes {{[0-9.]+}} cycles to turn and multiply, {{[0-9.]+}} if sums are turned"
kernel.func @few_rows(%x: tensor<2x768xf32>, %w: tensor<512x768xf32>) -> tensor<2x512xf32> {
  %y = kernel.contract batch [] m [2] n [512] k [768] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2x768xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<512x768xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<2x512xf32>
  kernel.return %y : tensor<2x512xf32>
}

// A depthwise convolution: inside, pixels share what they read, and only those at an edge test bounds. Each of 28224 vectors
// takes about ten cycles, not the sixty of one on its own.
// CHECK: cpu-choose-schedule | Function=depthwise
// CHECK-SAME: Cycles={{2[0-9][0-9][0-9][0-9][0-9]}}, Reason="one element at a time would take {{[0-9]+}} cycles", Remark="kernel @depthwise: #cpu.map<vector = [3], lanes = 16, steps = 4>
kernel.func @depthwise(%x: tensor<1x56x56x144xf32>, %w: tensor<3x3x144xf32>) -> tensor<1x56x56x144xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [3, 3] init(%zero : f32) {
      %in = kernel.inside (d0, d1, d2, d3, d4, d5) -> (d1 + d4 - 1, d2 + d5 - 1) bounds [56, 56]
      %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (0, d1 + d4 - 1, d2 + d5 - 1, d3) if %in else(%zero : f32) : tensor<1x56x56x144xf32> -> f32
      %c = arith.select %in, %a, %zero : f32
      %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d4, d5, d3) : tensor<3x3x144xf32> -> f32
      %p = arith.mulf %c, %b : f32
      kernel.yield %p : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<1x56x56x144xf32>
  kernel.return %y : tensor<1x56x56x144xf32>
}
