// RUN: kiln-opt %s --split-input-file --verify-diagnostics

func.func @scan_c1(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{dim 1 is not one of 1}}
  %y = kernel.scan dim 1 init {
    %zero = arith.constant 0.0 : f32
    kernel.yield %zero : f32
  } body {
    %zero = arith.constant 0.0 : f32
    kernel.yield %zero : f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %a : f32
  } finish {
  ^bb0(%a: f32):
    kernel.yield %a : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @scan_c2(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{init depends on d0, which is not one of its dims}}
  %y = kernel.scan dim 0 init {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } body {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %a : f32
  } finish {
  ^bb0(%a: f32):
    kernel.yield %a : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @scan_c3(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{combine takes ('f32'), expected ('f32', 'f32')}}
  %y = kernel.scan dim 0 init {
    %zero = arith.constant 0.0 : f32
    kernel.yield %zero : f32
  } body {
    %zero = arith.constant 0.0 : f32
    kernel.yield %zero : f32
  } combine {
  ^bb0(%a: f32):
    kernel.yield %a : f32
  } finish {
  ^bb0(%a: f32):
    kernel.yield %a : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @scan_c4(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{finish yields ('f64'), expected ('f32')}}
  %y = kernel.scan dim 0 init {
    %zero = arith.constant 0.0 : f64
    kernel.yield %zero : f64
  } body {
    %zero = arith.constant 0.0 : f64
    kernel.yield %zero : f64
  } combine {
  ^bb0(%a: f64, %b: f64):
    kernel.yield %a : f64
  } finish {
  ^bb0(%a: f64):
    kernel.yield %a : f64
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @scatter_c1(%index: tensor<7xi64>) -> tensor<5xf32> {
  // expected-error @below {{result has shape [5], expected [4]}}
  %y = kernel.scatter batch [] targets [4] places [7] init {
    %zero = arith.constant 0.0 : f32
    kernel.yield %zero : f32
  } update {
    %at = kernel.read %index (d0, d1) -> (d1) : tensor<7xi64> -> i64
    %always = arith.constant true
    %one = arith.constant 1.0 : f32
    kernel.yield %at, %always, %one : i64, i1, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %a : f32
  } : tensor<5xf32>
  return %y : tensor<5xf32>
}

// -----

func.func @scatter_c3(%index: tensor<7xi64>) -> tensor<4xf32> {
  // expected-error @below {{update yields ('i64', 'f32'), expected ('i64', 'i1', 'f32')}}
  %y = kernel.scatter batch [] targets [4] places [7] init {
    %zero = arith.constant 0.0 : f32
    kernel.yield %zero : f32
  } update {
    %at = kernel.read %index (d0, d1) -> (d1) : tensor<7xi64> -> i64
    %one = arith.constant 1.0 : f32
    kernel.yield %at, %one : i64, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %a : f32
  } : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @scatter_c5(%x: tensor<4xf32>, %index: tensor<4xi64>) -> tensor<4xf32> {
  // expected-error @below {{update depends on d0, which is not one of its dims}}
  %y = kernel.scatter batch [] targets [4] places [7] init {
    %zero = arith.constant 0.0 : f32
    kernel.yield %zero : f32
  } update {
    %at = kernel.read %index (d0, d1) -> (d0) : tensor<4xi64> -> i64
    %always = arith.constant true
    %one = arith.constant 1.0 : f32
    kernel.yield %at, %always, %one : i64, i1, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %a : f32
  } : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @sort_c1(%x: tensor<4xi64>) -> tensor<4xi32> {
  // expected-error @below {{has a result of other than i64}}
  %positions, %keys, %spare = kernel.sort {
    %key = kernel.read %x (d0) -> (d0) : tensor<4xi64> -> i64
    kernel.yield %key : i64
  } : tensor<4xi32>, tensor<4xi64>, tensor<4xi64>
  return %positions : tensor<4xi32>
}

// -----

func.func @sort_c2(%x: tensor<4xf32>) -> tensor<4xi64> {
  // expected-error @below {{the body yields ('f32'), expected ('i64')}}
  %positions, %keys, %spare = kernel.sort {
    %key = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    kernel.yield %key : f32
  } : tensor<4xi64>, tensor<4xi64>, tensor<4xi64>
  return %positions : tensor<4xi64>
}

// -----

func.func @merge_c1(%x: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @below {{results differ in shape: [8] and [4]}}
  %y:2 = kernel.merge 4 of 2 {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xi64> -> i64
    kernel.yield %a, %a : i64, i64
  } : tensor<4xi64>, tensor<8xi64>
  return %y#0 : tensor<4xi64>
}

// -----

func.func @merge_c2(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{has elements of 'f32', expected integers}}
  %y = kernel.merge 4 of 2 {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @merge_c3(%x: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @below {{cannot merge runs of 2 elements into runs of 3}}
  %y = kernel.merge 3 of 2 {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xi64> -> i64
    kernel.yield %a : i64
  } : tensor<4xi64>
  return %y : tensor<4xi64>
}

// -----

func.func @span_c1(%x: tensor<8x4xf32>) -> tensor<2x4xf32> {
  // expected-error @below {{of 'tensor<8x4xf32>' is a 'tensor<2x4xf32>'}}
  %y = kernel.span %x from 4 : tensor<8x4xf32> -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// expected-error @below {{updates operand 1, has 1 operands}}
kernel.func @func_c2(%x: tensor<8xf32>) -> tensor<8xf32> attributes {updates = 1 : i64} {
  %y = kernel.scatter batch [8] targets [] places [] init {
    %old = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %old : f32
  } update {
    %v = arith.constant 1.0 : f32
    %always = arith.constant true
    kernel.yield %always, %v : i1, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %b : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// -----

func.func @span_c2(%x: tensor<8x4xf32>) -> tensor<16xf32> {
  // expected-error @below {{lies outside of the tensor}}
  %y = kernel.span %x from 17 : tensor<8x4xf32> -> tensor<16xf32>
  return %y : tensor<16xf32>
}

// -----

func.func @bitcast_c1(%x: tensor<8x4xi32>) -> tensor<8x16xi8> {
  // expected-error @below {{of 'tensor<8x4xi32>' is a 'tensor<8x16xi8>'}}
  %y = kernel.bitcast %x : tensor<8x4xi32> -> tensor<8x16xi8>
  return %y : tensor<8x16xi8>
}

// -----

func.func @bitcast_c1_float(%x: tensor<8x4xf32>) -> tensor<8x2xi64> {
  // expected-error @below {{of 'tensor<8x4xf32>' is a 'tensor<8x2xi64>'}}
  %y = kernel.bitcast %x : tensor<8x4xf32> -> tensor<8x2xi64>
  return %y : tensor<8x2xi64>
}

// -----

func.func @bitcast_c2(%x: tensor<8x6xi8>) -> tensor<12xi32> {
  // expected-error @below {{of 'tensor<8x6xi8>' has other elements than 'tensor<12xi32>'}}
  %y = kernel.bitcast %x : tensor<8x6xi8> -> tensor<12xi32>
  return %y : tensor<12xi32>
}

// -----

// expected-error @below {{cannot be written over operand 0}}
kernel.func @func_c2_map(%x: tensor<8xf32>) -> tensor<8xf32> attributes {updates = 0 : i64} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// -----

// expected-error @below {{cannot be written over operand 0}}
kernel.func @func_c2_reads(%x: tensor<8xf32>) -> tensor<8xf32> attributes {updates = 0 : i64} {
  %y = kernel.scatter batch [8] targets [] places [] init {
    %old = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %old : f32
  } update {
    %v = kernel.read %x (d0) -> (7 - d0) : tensor<8xf32> -> f32
    %always = arith.constant true
    kernel.yield %always, %v : i1, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %b : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
