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

// -----

// V3
func.func @main(%n: tensor<i64>) {
  // expected-error@+1 {{uses symbol u0 before it is defined}}
  kernel.assert u0, "not negative"
  kernel.define "u0" from %n : tensor<i64>
  return
}

// -----

func.func @main(%n: tensor<i64>) {
  kernel.define "u0" from %n : tensor<i64>
  // expected-error@+1 {{defines symbol u0 again}}
  kernel.define "u0" = 2
  return
}

// -----

// Also where only the kernel uses it.
func.func @main(%n: tensor<i64>) -> tensor<i64> {
  // expected-error@+1 {{uses symbol u0 before it is defined}}
  %a = kernel.call @k() : () -> tensor<i64>
  kernel.define "u0" from %n : tensor<i64>
  return %a : tensor<i64>
}
kernel.func @k() -> tensor<i64> {
  %a = kernel.map {
    %i = kernel.index () -> (u0)
    kernel.yield %i : i64
  } : tensor<i64>
  kernel.return %a : tensor<i64>
}
