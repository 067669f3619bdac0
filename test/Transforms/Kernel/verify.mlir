// RUN: kiln-opt %s --kernel-verify --split-input-file --verify-diagnostics

// V1
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{is left after the kernel stage}}
  %a = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %e : f32
  } : tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

// V2
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
// expected-error@+1 {{is not called}}
kernel.func @k(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %e : f32
  } : tensor<8xf32>
  kernel.return %a : tensor<8xf32>
}
