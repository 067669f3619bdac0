// RUN: kiln-opt %s --torch-lower-to-kernel --verify-diagnostics --split-input-file

func.func @alignment(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: the spec '>8' in its format: the ones known are like .4f, .4e and .4g}}
  %0 = torch.higher_order "print"() args = ["{:>8}", 1] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @decimals(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: the spec '.99f' in its format}}
  %0 = torch.higher_order "print"() args = ["{:.99f}", 1] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @text_spec(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: the spec '.4f' in its format, which is for numbers}}
  %0 = torch.higher_order "print"() args = ["{:.4f}", "a"] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @tensor_spec(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: the spec '.4f' in its format, which is for numbers}}
  %0 = torch.higher_order "print"(%x) args = ["{:.4f}", #sym.arg<0>] {node = "print"} : (tensor<4xf32>) -> none
  return %x : tensor<4xf32>
}

// -----

func.func @attribute(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: the place {0.shape} in its format: attributes, items and conversions are Python's}}
  %0 = torch.higher_order "print"(%x) args = ["{0.shape}", #sym.arg<0>] {node = "print"} : (tensor<4xf32>) -> none
  return %x : tensor<4xf32>
}

// -----

func.func @item(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: the place {0[0]} in its format}}
  %0 = torch.higher_order "print"(%x) args = ["{0[0]}", #sym.arg<0>] {node = "print"} : (tensor<4xf32>) -> none
  return %x : tensor<4xf32>
}

// -----

func.func @conversion(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: the place {!r} in its format}}
  %0 = torch.higher_order "print"() args = ["{!r}", 1] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @missing(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: nothing is given for the place {} in its format}}
  %0 = torch.higher_order "print"() args = ["{} {}", 1] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @number(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: nothing is given for the place {7} in its format}}
  %0 = torch.higher_order "print"() args = ["{7}", 1] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @unknown_name(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: nothing is given for the place {a} in its format}}
  %0 = torch.higher_order "print"() args = ["{a}", 1] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @mixed(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: nothing is given for the place {0} in its format}}
  %0 = torch.higher_order "print"() args = ["{} {0}", 1] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @open(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: a single '{' in its format}}
  %0 = torch.higher_order "print"() args = ["a {", 1] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @close(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: a single '}' in its format}}
  %0 = torch.higher_order "print"() args = ["a } b", 1] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: a text with a zero byte}}
  %0 = torch.higher_order "print"() args = ["a\00b"] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @quoted(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: a list with a text that Python would escape}}
  %0 = torch.higher_order "print"() args = ["{}", ["it's"]] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @dictionary(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: an argument that is neither a tensor, a number, a text, None nor a list of these}}
  %0 = torch.higher_order "print"() args = ["{}", {keys = ["a"], values = [1]}] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @no_format(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: arguments that it does not take}}
  %0 = torch.higher_order "print"() args = [1] {node = "print"} : () -> none
  return %x : tensor<4xf32>
}

// -----

func.func @complex(%x: tensor<complex<f32>>) -> tensor<complex<f32>> {
  // expected-error@+1 {{print: the spec '.4f' in its format, which is for numbers}}
  %0 = torch.higher_order "print"(%x) args = ["{:.4f}", #sym.arg<0>] {node = "print"} : (tensor<complex<f32>>) -> none
  return %x : tensor<complex<f32>>
}

// -----

func.func @result(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{print: arguments that it does not take}}
  %0 = torch.higher_order "print"(%x) args = ["{}", #sym.arg<0>] {node = "print"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
