// RUN: kiln-opt %s --verify-diagnostics --split-input-file

func.func @iterate_c1(%x: tensor<8xf64>) -> tensor<8xf64> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf64> -> f64
    // expected-error @+1 {{the body yields ('f64'), expected ('i1', 'f64')}}
    %r = "kernel.iterate"(%a) <{limit = 4 : i64}> ({
    ^bb0(%v: f64):
      kernel.yield %v : f64
    }) : (f64) -> f64
    kernel.yield %r : f64
  } : tensor<8xf64>
  return %y : tensor<8xf64>
}

// -----

func.func @iterate_c2(%x: tensor<8xf64>) -> tensor<8xf64> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf64> -> f64
    %i = arith.constant 0 : i64
    // expected-error @+1 {{init has types ('i64'), expected ('f64')}}
    %r = "kernel.iterate"(%i) <{limit = 4 : i64}> ({
    ^bb0(%v: f64):
      %again = arith.constant true
      kernel.yield %again, %v : i1, f64
    }) : (i64) -> f64
    kernel.yield %r : f64
  } : tensor<8xf64>
  return %y : tensor<8xf64>
}

// -----

func.func @iterate_c3(%x: tensor<8xf64>) -> tensor<8xf64> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf64> -> f64
    // expected-error @+1 {{holds kernel.read, which is no scalar op}}
    %r = kernel.iterate at_most 4 init(%a : f64) {
    ^bb0(%v: f64):
      %again = arith.constant true
      %b = kernel.read %x (d0) -> (d0) : tensor<8xf64> -> f64
      kernel.yield %again, %b : i1, f64
    } : f64
    kernel.yield %r : f64
  } : tensor<8xf64>
  return %y : tensor<8xf64>
}

// -----

func.func @iterate_c4(%x: tensor<8xf64>) -> tensor<8xf64> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf64> -> f64
    // expected-error @+1 {{makes no step}}
    %r = kernel.iterate at_most 0 init(%a : f64) {
    ^bb0(%v: f64):
      %again = arith.constant true
      kernel.yield %again, %v : i1, f64
    } : f64
    kernel.yield %r : f64
  } : tensor<8xf64>
  return %y : tensor<8xf64>
}
