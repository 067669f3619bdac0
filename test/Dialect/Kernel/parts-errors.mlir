// RUN: kiln-opt %s --split-input-file --verify-diagnostics

func.func @contract_c1(%x: tensor<100x8xf32>) {
  // expected-error @below {{result has shape [4, 8], expected [2, 4, 8]}}
  %y = kernel.contract batch [] m [4] n [8] k [100] part 64 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<100x8xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d1) : tensor<100x8xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<4x8xf32>
  return
}

// -----

func.func @contract_c7(%x: tensor<100x8xf32>) {
  // expected-error @below {{part is 0, expected a positive number}}
  %y = kernel.contract batch [] m [4] n [8] k [100] part 0 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<100x8xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d1) : tensor<100x8xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<2x4x8xf32>
  return
}

// -----

func.func @contract_c7_panel(%x: tensor<100x8xf32>) {
  // expected-error @below {{has both a part and a panel}}
  %y = kernel.contract batch [] m [4] n [8] k [100] panel 8 part 64 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<100x8xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d1) : tensor<100x8xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<2x4x8xf32>
  return
}

// -----

func.func @attention_c8(%q: tensor<2x1x8xf16>, %k: tensor<2x100x8xf16>) {
  // expected-error @below {{has 1 results, expected 3}}
  %o = kernel.attention batch [2] m <1> n <100> d <8> dv <8> scale 1.0 part 64 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x1x8xf16> -> f16
    kernel.yield %a : f16
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x100x8xf16> -> f16
    kernel.yield %a : f16
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x100x8xf16> -> f16
    kernel.yield %a : f16
  } bias {
  } : tensor<2x2x1x8xf32>
  return
}

// -----

func.func @attention_c8_whole(%q: tensor<2x1x8xf16>, %k: tensor<2x100x8xf16>) {
  // expected-error @below {{has 3 results, expected 1}}
  %o:3 = kernel.attention batch [2] m <1> n <100> d <8> dv <8> scale 1.0 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x1x8xf16> -> f16
    kernel.yield %a : f16
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x100x8xf16> -> f16
    kernel.yield %a : f16
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x100x8xf16> -> f16
    kernel.yield %a : f16
  } bias {
  } : tensor<2x1x8xf16>, tensor<2x1xf16>, tensor<2x1xf16>
  return
}

// -----

func.func @attention_c8_narrow(%q: tensor<2x1x8xf64>, %k: tensor<2x100x8xf64>) {
  // expected-error @below {{sums 'f64' in 'f32'}}
  %o:3 = kernel.attention batch [2] m <1> n <100> d <8> dv <8> scale 1.0 part 64 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x1x8xf64> -> f64
    kernel.yield %a : f64
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x100x8xf64> -> f64
    kernel.yield %a : f64
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x100x8xf64> -> f64
    kernel.yield %a : f64
  } bias {
  } : tensor<2x2x1x8xf32>, tensor<2x2x1xf32>, tensor<2x2x1xf32>
  return
}

// -----

func.func @attention_c8_type(%q: tensor<2x1x8xf16>, %k: tensor<2x100x8xf16>) {
  // expected-error @below {{has a maximum or sum of type 'f16', expected 'f32'}}
  %o:3 = kernel.attention batch [2] m <1> n <100> d <8> dv <8> scale 1.0 part 64 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x1x8xf16> -> f16
    kernel.yield %a : f16
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x100x8xf16> -> f16
    kernel.yield %a : f16
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x100x8xf16> -> f16
    kernel.yield %a : f16
  } bias {
  } : tensor<2x2x1x8xf32>, tensor<2x2x1xf16>, tensor<2x2x1xf32>
  return
}

// -----

func.func @attention_c8_shape(%q: tensor<2x1x8xf16>, %k: tensor<2x100x8xf16>) {
  // expected-error @below {{result has shape [2, 2], expected [2, 2, 1]}}
  %o:3 = kernel.attention batch [2] m <1> n <100> d <8> dv <8> scale 1.0 part 64 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x1x8xf16> -> f16
    kernel.yield %a : f16
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x100x8xf16> -> f16
    kernel.yield %a : f16
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x100x8xf16> -> f16
    kernel.yield %a : f16
  } bias {
  } : tensor<2x2x1x8xf32>, tensor<2x2xf32>, tensor<2x2x1xf32>
  return
}

// -----

func.func @scan_c2(%x: tensor<8xf32>, %starts: tensor<8xf32>) {
  // expected-error @below {{init depends on d0, which is not one of its dims}}
  %y = kernel.scan dim 0 init {
    %s = kernel.read %starts (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %s : f32
  } body {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %e : f32
  } combine {
  ^bb0(%sum: f32, %next: f32):
    %s = arith.addf %sum, %next : f32
    kernel.yield %s : f32
  } finish {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<8xf32>
  return
}

// -----

func.func @scan_c5(%x: tensor<8xf32>) {
  // expected-error @below {{part is 0, expected a positive number}}
  %y = kernel.scan dim 0 part 0 init {
    %s = arith.constant 0.0 : f32
    kernel.yield %s : f32
  } body {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %e : f32
  } combine {
  ^bb0(%sum: f32, %next: f32):
    %s = arith.addf %sum, %next : f32
    kernel.yield %s : f32
  } finish {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<8xf32>
  return
}
