// RUN: kiln-opt %s --split-input-file --verify-diagnostics

func.func @read_c1(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    // expected-error @below {{index map takes 2 dims where 1 enclose it and 0 values are given}}
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @read_c1_unused(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    // expected-error @below {{index map uses a dim that it does not take}}
    %a = "kernel.read"(%x) <{map = #sym.map<(d0) -> (d0, d3)>, operandSegmentSizes = array<i32: 1, 0, 0, 0>}> : (tensor<8x4xf32>) -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @read_c2(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    // expected-error @below {{index map has 1 results for a tensor of rank 2}}
    %a = kernel.read %x (d0) -> (d0) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @read_c3(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %yes = arith.constant true
    // expected-error @below {{a mask needs the value to give where it is false}}
    %a = "kernel.read"(%x, %yes) <{map = #sym.map<(d0) -> (d0, 0)>, operandSegmentSizes = array<i32: 1, 0, 1, 0>}> : (tensor<8x4xf32>, i1) -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @read_c3_type(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f64
    %yes = arith.constant true
    // expected-error @below {{the value where the mask is false has type 'f64', the result 'f32'}}
    %a = kernel.read %x (d0) -> (d0, 0) if %yes else(%zero : f64) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @read_c4(%x: tensor<8x4xf32>) -> tensor<8xf64> {
  %y = kernel.map {
    // expected-error @below {{reads 'f64' from a tensor of 'f32'}}
    %a = kernel.read %x (d0) -> (d0, 0) : tensor<8x4xf32> -> f64
    kernel.yield %a : f64
  } : tensor<8xf64>
  return %y : tensor<8xf64>
}

// -----

func.func @index_c1(%x: tensor<8x4xf32>) -> tensor<8xi64> {
  %y = kernel.map {
    // expected-error @below {{needs an index map with one result}}
    %a = "kernel.index"() <{map = #sym.map<(d0) -> (d0, d0)>}> : () -> i64
    kernel.yield %a : i64
  } : tensor<8xi64>
  return %y : tensor<8xi64>
}

// -----

func.func @inside_c1(%x: tensor<8x4xf32>) -> tensor<8xi1> {
  %y = kernel.map {
    // expected-error @below {{has 2 bounds for 1 expressions}}
    %a = kernel.inside (d0) -> (d0) bounds [4, 4]
    kernel.yield %a : i1
  } : tensor<8xi1>
  return %y : tensor<8xi1>
}

// -----

func.func @reduce_c1(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %wide = arith.constant 0.0 : f64
    // expected-error @below {{the body yields ('f64'), expected ('f32')}}
    %a = kernel.reduce [4] init(%zero : f32) {
      %v = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
      kernel.yield %wide : f64
    } combine {
    ^bb0(%p: f32, %q: f32):
      kernel.yield %p : f32
    } : f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @reduce_c2(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %wide = arith.constant 0.0 : f64
    // expected-error @below {{combine takes ('f32'), expected ('f32', 'f32')}}
    %a = kernel.reduce [4] init(%zero : f32) {
      %v = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
      kernel.yield %v : f32
    } combine {
    ^bb0(%p: f32):
      kernel.yield %p : f32
    } : f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @reduce_c2_yield(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %wide = arith.constant 0.0 : f64
    // expected-error @below {{combine yields ('f64'), expected ('f32')}}
    %a = kernel.reduce [4] init(%zero : f32) {
      %v = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
      kernel.yield %v : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      kernel.yield %wide : f64
    } : f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @reduce_c3(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %wide = arith.constant 0.0 : f64
    // expected-error @below {{init has types ('f64'), expected ('f32')}}
    %a = kernel.reduce [4] init(%wide : f64) {
      %v = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
      kernel.yield %v : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      kernel.yield %p : f32
    } : f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @map_c1(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{results differ in shape: [4] and [8]}}
  %y, %z = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a, %a : f32, f32
  } : tensor<8xf32>, tensor<4xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @map_c1_none(%x: tensor<8xf32>) {
  // expected-error @below {{has no result}}
  "kernel.map"() ({
    "kernel.yield"() : () -> ()
  }) : () -> ()
  return
}

// -----

func.func @contract_c1(%x: tensor<8x16xf32>, %w: tensor<4x16xf32>) -> tensor<4x8xf32> {
  // expected-error @below {{result has shape [4, 8], expected [8, 4]}}
  %y = kernel.contract batch [] m [8] n [4] k [16] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

func.func @contract_c2(%x: tensor<8x16xf32>, %w: tensor<4x16xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{lhs yields 2 values, expected one}}
  %y = kernel.contract batch [] m [8] n [4] k [16] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xf32> -> f32
    kernel.yield %a, %a : f32, f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @contract_c2_rhs(%x: tensor<8x16xf32>, %w: tensor<4x16xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{rhs yields ('f32', 'f32'), expected ('f32')}}
  %y = kernel.contract batch [] m [8] n [4] k [16] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4x16xf32> -> f32
    kernel.yield %b, %b : f32, f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @contract_c3(%x: tensor<8x16xf32>, %w: tensor<4x16xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{epilogue takes one argument, the sum}}
  %y = kernel.contract batch [] m [8] n [4] k [16] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32, %t: f32):
    kernel.yield %s : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @contract_c4(%x: tensor<8x16xf32>, %w: tensor<4x16xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{rhs depends on d0, which is not one of its dims}}
  %y = kernel.contract batch [] m [8] n [4] k [16] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d0 + d2) : tensor<4x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @contract_c5(%x: tensor<8x16xf32>, %w: tensor<4x16xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{perm is not a permutation of the 2 batch, m and n dims}}
  %y = kernel.contract batch [] m [8] n [4] k [16] perm [0, 0] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @contract_c5_many(%x: tensor<8x16xf32>, %w: tensor<4x16xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{perm is not a permutation of the 2 batch, m and n dims}}
  %y = kernel.contract batch [] m [8] n [4] k [16] perm [0, 1, 2] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @contract_c6(%x: tensor<8x16xf32>, %w: tensor<4x16xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{the packed operand has shape [4, 16], panel is 4}}
  %y = kernel.contract batch [] m [8] n [4] k [16] panel 4 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @contract_c9(%x: tensor<8x16xf32>, %w: tensor<4x16xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{multiplies bytes, but its left operand or its sum is not i32}}
  %y = kernel.contract batch [] m [8] n [4] k [16] bytes 4 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @contract_c9_narrow(%x: tensor<8x16xi32>, %w: tensor<4x16xi16>) -> tensor<8x4xi32> {
  // expected-error @below {{is narrow, but does not multiply 4 bytes at a time}}
  %y = kernel.contract batch [] m [8] n [4] k [16] bytes 2 narrow lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xi32> -> i32
    kernel.yield %a : i32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4x16xi16> -> i16
    kernel.yield %b : i16
  } epilogue {
  ^bb0(%s: i32):
    kernel.yield %s : i32
  } : tensor<8x4xi32>
  return %y : tensor<8x4xi32>
}

// -----

func.func @contract_c9_number(%x: tensor<8x16xi32>, %w: tensor<4x16xi32>) -> tensor<8x4xi32> {
  // expected-error @below {{multiplies 3 bytes at a time, expected 2 or 4}}
  %y = kernel.contract batch [] m [8] n [4] k [16] bytes 3 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xi32> -> i32
    kernel.yield %a : i32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4x16xi32> -> i32
    kernel.yield %b : i32
  } epilogue {
  ^bb0(%s: i32):
    kernel.yield %s : i32
  } : tensor<8x4xi32>
  return %y : tensor<8x4xi32>
}

// -----

func.func @contract_c9_halves(%x: tensor<8x16xi32>, %w: tensor<4x16xi32>) -> tensor<8x4xi32> {
  // expected-error @below {{rhs yields}}
  %y = kernel.contract batch [] m [8] n [4] k [16] bytes 2 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xi32> -> i32
    kernel.yield %a : i32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4x16xi32> -> i32
    kernel.yield %b : i32
  } epilogue {
  ^bb0(%s: i32):
    kernel.yield %s : i32
  } : tensor<8x4xi32>
  return %y : tensor<8x4xi32>
}

// -----

func.func @attention_c5(%q: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{perm is not a permutation of the 2 batch, m and dv dims}}
  %y = kernel.attention batch [] m <8> n <8> d <4> dv <4> scale 1.0 perm [1, 1] q {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d2) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d2) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d3) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @attention_bias(%q: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{bias depends on d3, which is not one of its dims}}
  %y = kernel.attention batch [] m <8> n <8> d <4> dv <4> scale 1.0 q {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d2) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d2) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d3) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } bias {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d3) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @attention_score_arguments(%q: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{score takes ('f32', 'f32'), expected ('f32')}}
  %y = kernel.attention batch [] m <8> n <8> d <4> dv <4> scale 1.0 q {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d2) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d2) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d3) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } score {
  ^bb0(%p: f32, %b: f32):
    kernel.yield %p : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @attention_score_bias(%q: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{score takes ('f32'), expected ('f32', 'f32')}}
  %y = kernel.attention batch [] m <8> n <8> d <4> dv <4> scale 1.0 q {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d2) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d2) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d3) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } bias {
    %b = kernel.read %q (d0, d1, d2, d3) -> (d0, 0) : tensor<8x4xf32> -> f32
    kernel.yield %b : f32
  } score {
  ^bb0(%p: f32):
    kernel.yield %p : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @attention_score_reads(%q: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{holds kernel.read, which is no scalar op}}
  %y = kernel.attention batch [] m <8> n <8> d <4> dv <4> scale 1.0 q {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d2) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d2) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d3) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } score {
  ^bb0(%p: f32):
    %a = kernel.read %q (d0, d1, d2, d3) -> (0, 0) : tensor<8x4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @scatter_c6(%index: tensor<7xi64>) -> tensor<4xi64> {
  // expected-error @below {{perm is not a permutation of the 1 batch and target dims}}
  %y = kernel.scatter batch [] targets [4] places [7] perm [1] init {
    %zero = arith.constant 0 : i64
    kernel.yield %zero : i64
  } update {
    %at = kernel.read %index (d0, d1) -> (d1) : tensor<7xi64> -> i64
    %always = arith.constant true
    kernel.yield %at, %always, %at : i64, i1, i64
  } combine {
  ^bb0(%old: i64, %new: i64):
    kernel.yield %new : i64
  } : tensor<4xi64>
  return %y : tensor<4xi64>
}

// -----

func.func @sort_scalar(%x: tensor<i64>) -> tensor<i64> {
  // expected-error @below {{needs a dim to sort along}}
  %p, %k, %s = kernel.sort {
    %a = kernel.read %x () -> () : tensor<i64> -> i64
    kernel.yield %a : i64
  } : tensor<i64>, tensor<i64>, tensor<i64>
  return %p : tensor<i64>
}

// -----

// expected-error @below {{returns ('tensor<8xf32>'), declared ('tensor<4xf32>')}}
kernel.func @add(%x: tensor<8xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// -----

// expected-error @below {{holds one structured op and kernel.return}}
kernel.func @empty(%x: tensor<8xf32>) -> tensor<8xf32> {
  kernel.return %x : tensor<8xf32>
}

// -----

kernel.func @add(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

func.func @call_c1(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{calls @add as}}
  %y = kernel.call @add(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @call_c1_none(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'nowhere' is not a kernel.func}}
  %y = kernel.call @nowhere(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
