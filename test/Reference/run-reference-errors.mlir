// RUN: kiln-opt %s --run-reference=inputs=count --split-input-file --verify-diagnostics

// The module has results of a program that subtracted.
module attributes {reference.results = {main = [
    [[tensor<2xf32>, array<f64: 1.0, 0.0, 0.0, 0.0>], [tensor<2xf32>, array<f64: 1.0, 0.0, 0.0, 0.0>]]]}} {
  // expected-error @+1 {{result 0 is not what it was before: at [1]: 2 instead of 0 (1 of 2 elements differ)}}
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (d0) : tensor<2xf32> -> f32
      %one = arith.constant 1.0 : f32
      %b = arith.addf %a, %one : f32
      kernel.yield %b : f32
    } : tensor<2xf32>
    return %y : tensor<2xf32>
  }
}

// -----

module attributes {reference.results = {main = "nothing"}} {
  // expected-error @+1 {{has not as many results as it had before}}
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    return %x : tensor<2xf32>
  }
}

// -----

module attributes {reference.results = {main = [["none"]]}} {
  // expected-error @+1 {{the module's reference.results are not what run-reference writes}}
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    return %x : tensor<2xf32>
  }
}

// -----

module attributes {reference.results = {main = [
    [[tensor<2xi64>, array<i64: 0, 1>], [tensor<2xi64>, array<i64: 0, 1>]]]}} {
  // expected-error @+1 {{fails as it did not before: it is one}}
  func.func @main(%x: tensor<2xi64>) -> tensor<2xi64> {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (d0) : tensor<2xi64> -> i64
      %one = arith.constant 1 : i64
      %ok = arith.cmpi ne, %a, %one : i64
      %b = kernel.expect %a if %ok, "it is one" : i64
      kernel.yield %b : i64
    } : tensor<2xi64>
    return %y : tensor<2xi64>
  }
}

// -----

// expected-error @+1 {{the interpreter does not know kernel.extern}}
func.func @library(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = kernel.extern "torch" "aten.relu.default"(%x) args = [#sym.arg<0>] projection = [0] : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// A pass must not make reads that miss: this is no failure of the run.
// expected-error @+1 {{a kernel.read outside of its tensor: the index 2 in a dim of size 2}}
func.func @outside(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0 + 1) : tensor<2xf32> -> f32
    kernel.yield %a : f32
  } : tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// expected-error @+1 {{a tensor has too many elements to interpret the program}}
func.func @large(%x: tensor<1048576x1048576xf32>) -> tensor<1048576x1048576xf32> {
  return %x : tensor<1048576x1048576xf32>
}

// -----

module attributes {reference.results = {main = [
    [[tensor<2xcomplex<f32>>, array<f64: 1.0, 0.0, 0.0, 5.0>], [tensor<2xcomplex<f32>>, array<f64: 1.0, 0.0, 0.0, 5.0>]]]}} {
  // expected-error @+1 {{result 0 is not what it was before: at [1]: 0 + 4i instead of 0 + 5i (1 of 2 elements differ)}}
  func.func @main(%x: tensor<2xf32>) -> tensor<2xcomplex<f32>> {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (d0) : tensor<2xf32> -> f32
      %one = arith.constant 1.0 : f32
      %four = arith.constant 4.0 : f32
      %re = arith.subf %one, %a : f32
      %im = arith.mulf %a, %four : f32
      %c = complex.create %re, %im : complex<f32>
      kernel.yield %c : complex<f32>
    } : tensor<2xcomplex<f32>>
    return %y : tensor<2xcomplex<f32>>
  }
}

// -----

// Bytes that are 8-bit floats: NaN may have either sign, a number may not.
module attributes {reference.results = {main = [
    [[tensor<2xf8E4M3FN>, array<i64: 127, 56>], [tensor<2xf8E4M3FN>, array<i64: 127, 56>]]]}} {
  // expected-error @+1 {{result 0 is not what it was before: at [1]: -72 instead of 56 (1 of 2 elements differ)}}
  func.func @main(%x: tensor<2xi8>) -> tensor<2xf8E4M3FN> {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (d0) : tensor<2xi8> -> i8
      %minus_nan = arith.constant -1 : i8
      %minus_one = arith.constant -72 : i8
      %zero = arith.constant 0 : i8
      %first = arith.cmpi eq, %a, %zero : i8
      %b = arith.select %first, %minus_nan, %minus_one : i8
      kernel.yield %b : i8
    } : tensor<2xf8E4M3FN>
    return %y : tensor<2xf8E4M3FN>
  }
}
