// RUN: kiln-opt %s --torch-lower-to-kernel --verify-diagnostics --split-input-file

func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{flex_attention: it has no lowering}}
  %0 = torch.higher_order "flex_attention"(%x) args = [#sym.arg<0>] {node = "flex"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @arguments(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{map_impl: arguments that it does not take}}
  %0 = torch.higher_order "map_impl"(%x) args = [@f, #sym.arg<0>] {node = "map"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

func.func @count(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{map_impl: its nested graphs take other arguments}}
  %0 = torch.higher_order "map_impl"(%x) args = [@f, [#sym.arg<0>], [#sym.arg<0>]] {node = "map"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

func.func @predicate(%p: tensor<2xi1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{cond: a predicate that is not one bool}}
  %0 = torch.higher_order "cond"(%p, %x) args = [#sym.arg<0>, @f, @f, [#sym.arg<1>]] {node = "cond"} : (tensor<2xi1>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @shapes(%x: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{cond: it gives other shapes or dtypes than its nested graphs}}
  %0 = torch.higher_order "cond"(%x) args = [true, @f, @f, [#sym.arg<0>]] {node = "cond"} : (tensor<4xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @argument_shapes(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{cond: its nested graphs take tensors of other shapes or dtypes}}
  %0 = torch.higher_order "cond"(%x) args = [true, @f, @f, [#sym.arg<0>]] {node = "cond"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @f(%x: tensor<4xf64>) -> tensor<4xf32> {
  %0 = torch.call "aten.zeros.default"() args = [[4], unit, unit, unit, false] {node = "zeros"} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @condition(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{while_loop: a condition that is not one bool}}
  %0 = torch.higher_order "while_loop"(%x) args = [@f, @f, [#sym.arg<0>], []] {node = "while_loop"} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

func.func @carried(%x: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{while_loop: what it carries changes its shape or dtype}}
  %0 = torch.higher_order "while_loop"(%x) args = [@g, @f, [#sym.arg<0>], []] {node = "while_loop"} : (tensor<4xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @no_slices(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{scan: nothing to take slices of}}
  %0 = torch.higher_order "scan"(%x) args = [@f, [#sym.arg<0>], [], []] {node = "scan"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @scalar_slices(%x: tensor<f32>) -> tensor<4xf32> {
  // expected-error@+1 {{map_impl: what it takes slices of is no tensor with a dim}}
  %0 = torch.higher_order "map_impl"(%x) args = [@f, [#sym.arg<0>], []] {node = "map"} : (tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

func.func @lengths(%x: tensor<4xf32>, %y: tensor<5xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{map_impl: what it takes slices of differs in length}}
  %0 = torch.higher_order "map_impl"(%x, %y) args = [@f, [#sym.arg<0>, #sym.arg<1>], []] {node = "map"} : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @f(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

func.func @results(%x: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{map_impl: it gives other results than its nested graphs}}
  %0 = torch.higher_order "map_impl"(%x) args = [@f, [#sym.arg<0>], []] {node = "map"} : (tensor<4xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

// A number that the loop carries would take the place of an input's size.
module attributes {sym.symbols = {s0 = {min = 2}}} {
  func.func @main(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<i64> {
    // expected-error@+1 {{while_loop: a number that changes from round to round and has no symbol of its own}}
    %0 = torch.higher_order "while_loop"() args = [@go, @step, [#sym.expr<s0>], []] {node = "while"} : () -> tensor<i64>
    return %0 : tensor<i64>
  }
  func.func private @go(%n: tensor<i64> {torch.value = #sym.expr<s0>}) -> tensor<i1> {
    %0 = torch.call "_operator.lt"() args = [#sym.expr<s0>, 5] {node = "lt"} : () -> tensor<i1>
    return %0 : tensor<i1>
  }
  func.func private @step(%n: tensor<i64> {torch.value = #sym.expr<s0>}) -> tensor<i64> {
    %0 = torch.number #sym.expr<s0 + 1> -> tensor<i64>
    return %0 : tensor<i64>
  }
}

// -----

// No branch says what the symbol is.
module attributes {sym.symbols = {u0 = {min = 0}}} {
  func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@+1 {{cond: a size that its nested graphs do not give}}
    %0 = torch.higher_order "cond"(%p, %x) args = [#sym.arg<0>, @f, @f, [#sym.arg<1>]] {node = "cond", defines = ["u0"]} : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
