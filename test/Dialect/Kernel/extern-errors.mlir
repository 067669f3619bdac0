// RUN: kiln-opt %s --verify-diagnostics --split-input-file

func.func @extern_c1(%x: tensor<4xf32>) {
  // expected-error@+1 {{argument refers to operand 1 of 1}}
  %0 = kernel.extern "torch" "aten.op.default"(%x) args = [#sym.arg<0>, #sym.arg<1>] projection = [0] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @extern_c1(%x: tensor<4xf32>) {
  // expected-error@+1 {{operand 0 is not used by the arguments}}
  %0 = kernel.extern "torch" "aten.op.default"(%x) args = [1] projection = [0] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @extern_c2(%x: tensor<4xf32>) {
  // expected-error@+1 {{has 1 projections, 0 sizes and 1 updates for 1 results}}
  %0 = kernel.extern "torch" "aten.op.default"(%x) args = [#sym.arg<0>] projection = [0] updates = [0] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @extern_c3(%x: tensor<4xf32>) {
  // expected-error@+1 {{projects a return value twice}}
  %0:2 = kernel.extern "torch" "aten.op.default"(%x) args = [#sym.arg<0>] projection = [1, 1] : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @extern_c3(%x: tensor<4xf32>) {
  // expected-error@+1 {{or one of a negative number}}
  %0 = kernel.extern "torch" "aten.op.default"(%x) args = [#sym.arg<0>] projection = [-1] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @extern_c4(%x: tensor<4xf32>) {
  // expected-error@+1 {{updates an operand twice, or one that it does not have}}
  %0 = kernel.extern "torch" "aten.op.default"(%x) args = [#sym.arg<0>] projection = [] updates = [1] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @extern_c4(%x: tensor<4xf32>) {
  // expected-error@+1 {{updates operand 0, but the result has another type}}
  %0 = kernel.extern "torch" "aten.op.default"(%x) args = [#sym.arg<0>] projection = [] updates = [0] : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @extern_c5(%x: tensor<4xf32>) {
  // expected-error@+1 {{has 2 names for 1 arguments}}
  %0 = kernel.extern "torch" "lib.op.default"(%x) args = [#sym.arg<0>] names = ["a", "b"] projection = [0] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @extern_c2(%x: tensor<4xf32>) {
  // expected-error@+1 {{has 0 projections, 1 sizes and 0 updates for 1 results}}
  %0 = kernel.extern "torch" "lib.op.default"(%x) args = [#sym.arg<0>] projection = [] sizes = [0, 0] : (tensor<4xf32>) -> tensor<i64>
  return
}

// -----

func.func @extern_c6(%x: tensor<4xf32>) {
  // expected-error@+1 {{has sizes that are no pairs of a number and a dim}}
  %0:2 = kernel.extern "torch" "lib.op.default"(%x) args = [#sym.arg<0>] projection = [] sizes = [0] : (tensor<4xf32>) -> (tensor<i64>, tensor<i64>)
  return
}

// -----

func.func @extern_c6(%x: tensor<4xf32>) {
  // expected-error@+1 {{asks for dim -2 of return value 0}}
  %0:2 = kernel.extern "torch" "lib.op.default"(%x) args = [#sym.arg<0>] projection = [] sizes = [0, -2] : (tensor<4xf32>) -> (tensor<i64>, tensor<i64>)
  return
}

// -----

func.func @extern_c6(%x: tensor<4xf32>) {
  // expected-error@+1 {{gives a size as a 'tensor<1xi64>'}}
  %0:2 = kernel.extern "torch" "lib.op.default"(%x) args = [#sym.arg<0>] projection = [] sizes = [0, 0] : (tensor<4xf32>) -> (tensor<i64>, tensor<1xi64>)
  return
}
