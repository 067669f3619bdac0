// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file --verify-diagnostics

// The block that reads is another one than that which writes.
kernel.func private @product(%x: tensor<1x64xf32>, %w: tensor<64x64xf32>, %y: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %0 = kernel.contract batch [] m [1] n [64] k [64] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x64xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    %e = kernel.read %y (d0, d1, d2) -> (d0, 63 - d1) : tensor<1x64xf32> -> f32
    %v = arith.addf %sum, %e : f32
    kernel.yield %v : f32
  } : tensor<1x64xf32>
  kernel.return %0 : tensor<1x64xf32>
}
kernel.func @order(%x: tensor<1x64xf32>, %w: tensor<64x64xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
  %0 = kernel.call @product(%x, %w, %x) : (tensor<1x64xf32>, tensor<64x64xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
  // expected-error @below {{reads what other blocks of the group write}}
  %1 = kernel.call @product(%x, %w, %0) : (tensor<1x64xf32>, tensor<64x64xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
  kernel.return %0, %1 : tensor<1x64xf32>, tensor<1x64xf32>
}

// -----

kernel.func @product(%x: tensor<1x64xf32>, %w: tensor<64x64xf32>, %y: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %0 = kernel.contract batch [] m [1] n [64] k [64] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x64xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    %e = kernel.read %y (d0, d1, d2) -> (d0, d1) : tensor<1x64xf32> -> f32
    %v = arith.addf %sum, %e : f32
    kernel.yield %v : f32
  } : tensor<1x64xf32>
  kernel.return %0 : tensor<1x64xf32>
}
kernel.func @launched(%x: tensor<1x64xf32>, %w: tensor<64x64xf32>) -> tensor<1x64xf32> {
  // expected-error @below {{calls what is no part of a group}}
  %0 = kernel.call @product(%x, %w, %x) : (tensor<1x64xf32>, tensor<64x64xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
  kernel.return %0 : tensor<1x64xf32>
}

// -----

kernel.func private @product(%x: tensor<1x64xf32>, %w: tensor<64x64xf32>, %y: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %0 = kernel.contract batch [] m [1] n [64] k [64] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x64xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    %e = kernel.read %y (d0, d1, d2) -> (d0, d1) : tensor<1x64xf32> -> f32
    %v = arith.addf %sum, %e : f32
    kernel.yield %v : f32
  } : tensor<1x64xf32>
  kernel.return %0 : tensor<1x64xf32>
}
kernel.func @own(%x: tensor<1x64xf32>, %w: tensor<64x64xf32>) -> tensor<1x64xf32> {
  // expected-error @below {{is each block's own, but no map of a known size}}
  %0 = kernel.call @product(%x, %w, %x) : (tensor<1x64xf32>, tensor<64x64xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
  %1 = kernel.call @product(%0, %w, %x) : (tensor<1x64xf32>, tensor<64x64xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
  kernel.return %1 : tensor<1x64xf32>
}
