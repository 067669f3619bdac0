// RUN: kiln-opt %s --split-input-file --verify-diagnostics

kernel.func private @a(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y:2 = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %e, %e : f32, f32
  } : tensor<8xf32>, tensor<8xf32>
  kernel.return %y#0, %y#1 : tensor<8xf32>, tensor<8xf32>
}
// expected-error @below {{returns what is no result of a call, or one twice}}
kernel.func @twice(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0:2 = kernel.call @a(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  kernel.return %0#0, %0#0 : tensor<8xf32>, tensor<8xf32>
}

// -----

kernel.func private @a(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y:2 = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %e, %e : f32, f32
  } : tensor<8xf32>, tensor<8xf32>
  kernel.return %y#0, %y#1 : tensor<8xf32>, tensor<8xf32>
}
kernel.func @half(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{has results that the kernel returns, and others}}
  %0:2 = kernel.call @a(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  kernel.return %0#0 : tensor<8xf32>
}

// -----

kernel.func private @a(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %e : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
kernel.func @own(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = kernel.call @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @below {{is each block's own, but reads what another one computes}}
  %1 = kernel.call @a(%0) : (tensor<8xf32>) -> tensor<8xf32>
  kernel.return %0 : tensor<8xf32>
}

// -----

// expected-error @below {{updates an operand, which only the kernels that it calls may}}
kernel.func @updates(%x: tensor<8xf32>) -> tensor<8xf32> attributes {updates = 0 : i64} {
  %0 = kernel.call @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
  kernel.return %0 : tensor<8xf32>
}

// -----

kernel.func private @a(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %e : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
kernel.func @other(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = kernel.call @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @below {{in a kernel that calls others}}
  %1 = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %e : f32
  } : tensor<8xf32>
  kernel.return %0 : tensor<8xf32>
}
