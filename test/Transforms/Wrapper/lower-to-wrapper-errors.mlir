// RUN: kiln-opt %s --kernel-lower-to-wrapper --split-input-file --verify-diagnostics

// expected-error@+1 {{no function main}}
module {
}

// -----

// c1
func.func @main(%x: tensor<4xf32> {torch.name = "x"}) -> (tensor<4xf32> {torch.name = "y"}) {
  // expected-error@+1 {{'kernel.map' is not part of a program of kernel calls}}
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// c2
// expected-error@+1 {{argument 0 has no torch.name}}
func.func @main(%x: tensor<4xf32>) {
  return
}

// -----

// expected-error@+1 {{result 0 has no torch.name}}
func.func @main(%x: tensor<4xf32> {torch.name = "x"}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// c3
func.func @main(%x: tensor<4xf32> {torch.name = "x"}, %y: tensor<2xf32> {torch.name = "y"})
    -> (tensor<2xf32> {torch.mutates = "x"}) {
  // expected-error@+1 {{result 0 is the new value of 'x', which has another type}}
  return %y : tensor<2xf32>
}

// -----

// c4
func.func @main(%n: tensor<i64> {torch.name = "n"}) {
  // expected-error@+1 {{defines u0, which is not in sym.symbols}}
  kernel.define "u0" from %n : tensor<i64>
  return
}
