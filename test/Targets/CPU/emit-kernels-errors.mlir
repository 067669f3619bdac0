// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v3 --cpu-emit-kernels --verify-diagnostics

// expected-error@+1 {{has no schedule: run cpu-choose-schedule first}}
kernel.func @unscheduled(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
