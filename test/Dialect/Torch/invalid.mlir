// RUN: kiln-opt %s -split-input-file -verify-diagnostics

func.func @call_c1(%x: tensor<f32>) {
  // expected-error @+1 {{argument refers to operand 1 of 1}}
  torch.call "my.op.default"(%x) args = [#sym.arg<0>, [#sym.arg<1>]] {node = "n"} : (tensor<f32>) -> ()
  return
}

// -----

func.func @call_c1_scalar(%x: tensor<f32>) {
  // expected-error @+1 {{argument refers to operand 7 of 1}}
  torch.call "my.op.default"(%x) args = [#sym.scalar<7>] {node = "n"} : (tensor<f32>) -> ()
  return
}

// -----

func.func @call_c2(%x: tensor<f32>) {
  // expected-error @+1 {{operand 1 is not used by the arguments}}
  torch.call "my.op.default"(%x, %x) args = [#sym.arg<0>] {node = "n"} : (tensor<f32>, tensor<f32>) -> ()
  return
}

// -----

func.func @call_c3_arity(%x: tensor<f32>) {
  // expected-error @+1 {{has 2 arguments, the schema of aten.add.Tensor has 3}}
  %0 = torch.call "aten.add.Tensor"(%x) args = [#sym.arg<0>, 1] {node = "n"} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @call_c3_type(%x: tensor<f32>) {
  // expected-error @+1 {{argument 'self' does not fit the schema of aten.add.Tensor: "x"}}
  %0 = torch.call "aten.add.Tensor"(%x) args = ["x", #sym.arg<0>, 1] {node = "n"} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @call_c3_none(%x: tensor<f32>) {
  // expected-error @+1 {{argument 'other' does not fit}}
  %0 = torch.call "aten.add.Tensor"(%x) args = [#sym.arg<0>, unit, 1] {node = "n"} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @call_c3_list(%x: tensor<f32>) {
  // expected-error @+1 {{argument 'dims' does not fit}}
  %0 = torch.call "aten.permute.default"(%x) args = [#sym.arg<0>, [0, 1.0]] {node = "n"} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @call_c4_count(%x: tensor<i64>) {
  // expected-error @+1 {{has 2 entries in 'values' for 1 results}}
  %0 = torch.call "my.op.default"(%x) args = [#sym.arg<0>] {node = "n", values = [unit, unit]} : (tensor<i64>) -> tensor<i64>
  return
}

// -----

func.func @call_c4_type(%x: tensor<i64>) {
  // expected-error @+1 {{expects an expression for a 0-d tensor of i64 or i1, or unit, in 'values'}}
  %0 = torch.call "my.op.default"(%x) args = [#sym.arg<0>] {node = "n", values = [#sym.expr<u0>]} : (tensor<i64>) -> tensor<f64>
  return
}

// -----

func.func @call_c5(%x: tensor<i64>) {
  // expected-error @+1 {{has 2 names for 1 arguments}}
  torch.call "my.op.default"(%x) args = [#sym.arg<0>] {node = "n", names = ["a", "b"]} : (tensor<i64>) -> ()
  return
}

// -----

func.func @higher_order_c6(%x: tensor<i64>) {
  // expected-error @+1 {{'nowhere' is not a function}}
  torch.higher_order "cond"(%x) args = [#sym.arg<0>, [@nowhere]] {node = "n"} : (tensor<i64>) -> ()
  return
}

// -----

func.func @call_c6(%x: tensor<2xf32>) {
  // expected-error @+1 {{updates an operand twice, or one that it does not have}}
  %0:2 = torch.call "aten._foreach_neg_.default"(%x) args = [[#sym.arg<0>]] {node = "n", updates = array<i64: 0, 0>} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @call_c6(%x: tensor<2xf32>) {
  // expected-error @+1 {{updates operand 0, but result 0 has another type}}
  %0 = torch.call "aten._foreach_neg_.default"(%x) args = [[#sym.arg<0>]] {node = "n", updates = array<i64: 0>} : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @call_c6(%x: tensor<2xf32>) {
  // expected-error @+1 {{has 0 projections, 0 sizes and 1 updates for 0 results}}
  torch.call "aten._foreach_neg_.default"(%x) args = [[#sym.arg<0>]] {node = "n", updates = array<i64: 0>} : (tensor<2xf32>) -> ()
  return
}

// -----

func.func @constant_c1() {
  // expected-error @+1 {{kind is 'parameter', 'buffer' or 'constant', not 'weight'}}
  %0 = torch.constant "w" = dense<0.0> : tensor<2xf32> {kind = "weight"}
  return
}

// -----

func.func @constant_c2() {
  // expected-error @+1 {{a constant is neither mutated nor transient}}
  %0 = torch.constant "w" = dense<0.0> : tensor<2xf32> {kind = "constant", mutated}
  return
}

// -----

func.func @number_c1() {
  // expected-error @+1 {{does not fit type 'f64'}}
  %0 = torch.number #sym.expr<s0> -> tensor<f64>
  return
}

// -----

// expected-error @+1 {{expected one of strided, sparse_coo}}
func.func private @layout() attributes {a = #sym.layout<dense>}
