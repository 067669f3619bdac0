// RUN: kiln-opt %s --torch-bind-custom-ops='ops="lib::scale(Tensor x, float factor=1., *, bool flag) -> Tensor=my_scale"' --split-input-file --verify-diagnostics
// RUN: not kiln-opt %s --torch-bind-custom-ops='ops="lib::scale(Tensor x) -> Tensor"' 2>&1 | FileCheck %s
// CHECK: 'lib::scale(Tensor x) -> Tensor': no name of a C function behind the last '='

func.func @name(%x: tensor<4xf32>) {
  // expected-error @below {{lib.scale.default: its declared schema has no argument 'other'}}
  %0 = torch.call "lib.scale.default"(%x) args = [#sym.arg<0>, 1] {node = "a", names = ["x", "other"]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @many(%x: tensor<4xf32>) {
  // expected-error @below {{its declared schema has no argument number 3}}
  %0 = torch.call "lib.scale.default"(%x) args = [#sym.arg<0>, 1, true, 4] {node = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @twice(%x: tensor<4xf32>) {
  // expected-error @below {{argument 'x' is given twice}}
  %0 = torch.call "lib.scale.default"(%x) args = [#sym.arg<0>, #sym.arg<0>] {node = "a", names = ["", "x"]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @missing(%x: tensor<4xf32>) {
  // expected-error @below {{argument 'flag' is missing}}
  %0 = torch.call "lib.scale.default"(%x) args = [#sym.arg<0>] {node = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @type(%x: tensor<4xf32>) {
  // expected-error @below {{argument 'factor' does not fit its declared schema}}
  %0 = torch.call "lib.scale.default"(%x) args = [#sym.arg<0>, "much", true] {node = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// The function reads a float, and would be given an integer.
func.func @symbolic(%x: tensor<4xf32>) {
  // expected-error @below {{argument 'factor' does not fit its declared schema}}
  %0 = torch.call "lib.scale.default"(%x) args = [#sym.arg<0>, #sym.expr<s0>, true] {node = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @results(%x: tensor<4xf32>) {
  // expected-error @below {{its declared schema has another number of results}}
  %0:2 = torch.call "lib.scale.default"(%x) args = [#sym.arg<0>, 1, true] {node = "a"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}
