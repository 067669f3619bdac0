// RUN: kiln-opt %s --split-input-file --verify-diagnostics

func.func @winograd_c1(%x: tensor<8x8x4xf32>, %u: tensor<1x64x16xf32>) -> tensor<6x6x4xf32> {
  // expected-error @below {{result has shape [6, 6, 4], expected [6, 5, 4]}}
  %y = kernel.winograd tile 2 panel 16 batch [] pixels [6, 5] n 4 c 4 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6, d7) -> (d3, d4, d5) : tensor<8x8x4xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %u (d0, d1, d2, d3, d4, d5, d6, d7) -> (0, 16*d6 + 4*d7 + d5, d2) : tensor<1x64x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<6x6x4xf32>
  return %y : tensor<6x6x4xf32>
}

// -----

func.func @winograd_c2(%x: tensor<8x8x4xf32>, %u: tensor<1x64x16xf32>) -> tensor<6x6x4xf32> {
  // expected-error @below {{has 2 pixels extents, tiles of 3 and panels of 16}}
  %y = kernel.winograd tile 3 panel 16 batch [] pixels [6, 6] n 4 c 4 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6, d7) -> (d3, d4, d5) : tensor<8x8x4xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %u (d0, d1, d2, d3, d4, d5, d6, d7) -> (0, 16*d6 + 4*d7 + d5, d2) : tensor<1x64x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<6x6x4xf32>
  return %y : tensor<6x6x4xf32>
}

// -----

func.func @winograd_c3(%x: tensor<8x8x4xf32>, %u: tensor<1x64x16xf32>) -> tensor<6x6x4xf64> {
  // expected-error @below {{epilogue takes ('f64'), expected the sum, of f32}}
  %y = kernel.winograd tile 2 panel 16 batch [] pixels [6, 6] n 4 c 4 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6, d7) -> (d3, d4, d5) : tensor<8x8x4xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %u (d0, d1, d2, d3, d4, d5, d6, d7) -> (0, 16*d6 + 4*d7 + d5, d2) : tensor<1x64x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f64):
    kernel.yield %s : f64
  } : tensor<6x6x4xf64>
  return %y : tensor<6x6x4xf64>
}

// -----

func.func @winograd_c4(%x: tensor<8x8x4xf32>, %u: tensor<1x64x16xf32>) -> tensor<6x6x4xf32> {
  // expected-error @below {{lhs depends on d0, which is not one of its dims}}
  %y = kernel.winograd tile 2 panel 16 batch [] pixels [6, 6] n 4 c 4 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d4, d5) : tensor<8x8x4xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %u (d0, d1, d2, d3, d4, d5, d6, d7) -> (0, 16*d6 + 4*d7 + d5, d2) : tensor<1x64x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<6x6x4xf32>
  return %y : tensor<6x6x4xf32>
}

// -----

func.func @winograd_c5(%x: tensor<8x8x4xf32>, %u: tensor<1x64x16xf32>) -> tensor<6x6x4xf32> {
  // expected-error @below {{the packed operand has shape [1, 64, 16], expected [1, 144, 16]}}
  %y = kernel.winograd tile 4 panel 16 batch [] pixels [6, 6] n 4 c 4 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6, d7) -> (d3, d4, d5) : tensor<8x8x4xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %u (d0, d1, d2, d3, d4, d5, d6, d7) -> (0, 16*d6 + 4*d7 + d5, d2) : tensor<1x64x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<6x6x4xf32>
  return %y : tensor<6x6x4xf32>
}

// -----

func.func @winograd_c5_read(%x: tensor<8x8x4xf32>, %u: tensor<1x64x16xf32>) -> tensor<6x6x4xf32> {
  // expected-error @below {{rhs does not begin with the read of a packed operand}}
  %y = kernel.winograd tile 2 panel 16 batch [] pixels [6, 6] n 4 c 4 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6, d7) -> (d3, d4, d5) : tensor<8x8x4xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %zero = arith.constant 0.0 : f32
    %b = kernel.read %u (d0, d1, d2, d3, d4, d5, d6, d7) -> (0, 16*d6 + 4*d7 + d5, d2) : tensor<1x64x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<6x6x4xf32>
  return %y : tensor<6x6x4xf32>
}
