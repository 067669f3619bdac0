// RUN: kiln-opt %s --pass-pipeline='builtin.module(kernel.func(cpu-choose-schedule{cpu=x86-64-v4}))' --split-input-file --verify-diagnostics

kernel.func @type(%x: tensor<8xf128>) -> tensor<8xf128> {
  %y = kernel.map {
    // expected-error @below {{no code is generated for values of type 'f128' on CPUs}}
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf128> -> f128
    kernel.yield %a : f128
  } : tensor<8xf128>
  kernel.return %y : tensor<8xf128>
}

// -----

// expected-error @below {{a map's schedule needs tile = [lanes, dim, count]}}
kernel.func @schedule(%x: tensor<8xf32>) -> tensor<8xf32> attributes {schedule = #kernel.schedule<tile = [8, 0, 1], block = [1], lanes = 8, stage = false>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
