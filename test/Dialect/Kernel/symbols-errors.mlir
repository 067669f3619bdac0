// RUN: kiln-opt %s --split-input-file --verify-diagnostics

// define_c1
func.func @define(%t: tensor<i64>) {
  // expected-error@+1 {{needs either data or an expression}}
  kernel.define "u0" from %t : tensor<i64> = 2
  return
}

// -----

func.func @define() {
  // expected-error@+1 {{needs either data or an expression}}
  kernel.define "u0"
  return
}

// -----

func.func @define(%t: tensor<1xi64>) {
  // expected-error@+1 {{loads from 'tensor<1xi64>', not from a tensor<i64>}}
  kernel.define "u0" from %t : tensor<1xi64>
  return
}

// -----

// check_c1
func.func @check(%t: tensor<i64>) {
  // expected-error@+1 {{condition is 'tensor<i64>', not a tensor<i1>}}
  kernel.check %t, "always" : tensor<i64>
  return
}

// -----

// repeat_c1
func.func @repeat() {
  // expected-error@+1 {{count yields ('f32'), expected ('i64')}}
  %p = kernel.repeat total 8 chunk 8 count {
    %m = arith.constant 1.0 : f32
    kernel.yield %m : f32
  } start {
    %s = arith.constant 0 : i64
    kernel.yield %s : i64
  } : tensor<8xi64>
  return
}

// -----

func.func @repeat() {
  // expected-error@+1 {{start yields ('i1'), expected ('i64')}}
  %p = kernel.repeat total 8 chunk 8 count {
    %m = arith.constant true
    kernel.yield %m : i1
  } start {
    %s = arith.constant false
    kernel.yield %s : i1
  } : tensor<8xi64>
  return
}

// -----

// repeat_c2
func.func @repeat() {
  // expected-error@+1 {{result is 'tensor<2x4xi64>', not a vector of i64}}
  %p = kernel.repeat total 8 chunk 8 count {
    %m = arith.constant true
    kernel.yield %m : i1
  } start {
    %s = arith.constant 0 : i64
    kernel.yield %s : i64
  } : tensor<2x4xi64>
  return
}

// -----

// repeat_c3
func.func @repeat() {
  // expected-error@+1 {{start}}
  %p = kernel.repeat total 8 chunk 8 count {
    %m = arith.constant true
    kernel.yield %m : i1
  } start {
    %s = kernel.index (d0, d1) -> (d1)
    kernel.yield %s : i64
  } : tensor<8xi64>
  return
}
