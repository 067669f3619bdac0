// RUN: kiln-opt %s --torch-lower-to-kernel --verify-diagnostics --split-input-file

// All operators that cannot be compiled are named in one message, each once.
func.func @all(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error-re@+4 {{cannot compile cond: arguments that it does not take ({{.*}}); aten._dirichlet_grad.default: it has no lowering ({{.*}} and 1 more); aten.conv2d.default: input and weight of these ranks: f32{{.*}}, f32{{.*}} ({{.*}})}}
  %0 = torch.call "aten._dirichlet_grad.default"(%x) args = [#sym.arg<0>, #sym.arg<0>, #sym.arg<0>] {node = "first"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = torch.call "aten._dirichlet_grad.default"(%0) args = [#sym.arg<0>, #sym.arg<0>, #sym.arg<0>] {node = "second"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = torch.call "aten.conv2d.default"(%1, %x) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 1] {node = "third"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = torch.higher_order "cond"(%2) args = [true, [#sym.arg<0>]] {node = "fourth"} : (tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}

// -----

// A dtype that an operator does not take.
func.func @dtype(%x: tensor<4xi1>) -> tensor<4xi1> {
  // expected-error@+1 {{aten.sub.Tensor: subtraction of bool}}
  %0 = torch.call "aten.sub.Tensor"(%x, %x) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "sub"} : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// -----

// A declared shape that is not what the operator gives.
func.func @shape(%x: tensor<4x6xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{aten.view.default: reshapes to another number of elements}}
  %0 = torch.call "aten.view.default"(%x) args = [#sym.arg<0>, [5]] {node = "view"} : (tensor<4x6xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

// A slice that a damaged program declares outside its tensor.
func.func @outside(%x: tensor<4x6xf32>) -> tensor<4x9xf32> {
  // expected-error@+1 {{aten.slice.Tensor: computes another shape than the program declares}}
  %0 = torch.call "aten.slice.Tensor"(%x) args = [#sym.arg<0>, 1, 2, 20, 1] {node = "slice"} : (tensor<4x6xf32>) -> tensor<4x9xf32>
  return %0 : tensor<4x9xf32>
}

// -----

// A probability above 1.
func.func @dropout(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{aten.alpha_dropout.default: this probability or dtype}}
  %0 = torch.call "aten.alpha_dropout.default"(%x) args = [#sym.arg<0>, 1.5, true] {node = "dropout"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Whether ATen interpolates along a dim whose size stays as it is depends on the number of channels.
func.func @bytes(%x: tensor<1x3x8x8xui8>) -> tensor<1x3x8x5xui8> {
  // expected-error@+1 {{cannot compile aten.upsample_bilinear2d.default: a factor that leaves a size of an image of bytes as it is}}
  %0 = torch.call "aten.upsample_bilinear2d.default"(%x) args = [#sym.arg<0>, [8, 5], false, 1.1, unit] {node = "resize"} : (tensor<1x3x8x8xui8>) -> tensor<1x3x8x5xui8>
  return %0 : tensor<1x3x8x5xui8>
}

// -----

// What an operator of the program's own lacks.
func.func @custom(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error-re@+1 {{cannot compile lib.op.default: it has no lowering, and no C function (--custom-op) ({{.*}})}}
  %0 = torch.call "lib.op.default"(%x) args = [#sym.arg<0>] {node = "op"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The other tensor may be channels last, which the program does not tell.
func.func @resize_as(%x: tensor<20xf32>, %y: tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32> {
  // expected-error-re@+1 {{cannot compile aten.resize_as.default: preserve_format of a tensor whose order of dims is not known{{.*}}}}
  %0 = torch.call "aten.resize_as.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, #sym.memory_format<preserve>] {node = "resize"} : (tensor<20xf32>, tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32>
  return %0 : tensor<1x3x2x2xf32>
}

// -----

// The second call is looked at as well, and finds its operand as it was.
module attributes {sym.symbols = {u0 = {max = 12, min = 0}, u1 = {max = 12, min = 0}}} {
  func.func @undefined(%x: tensor<3x4xf32>) -> tensor<?x?xf32, #sym.shape<[u0, u1]>> {
    // expected-error @+1 {{cannot compile aten.nonzero.default: what gives u1 its value is not known}}
    %0 = torch.call "aten.nonzero.default"(%x) args = [#sym.arg<0>] {node = "nonzero", defines = ["u0", "u1"]} : (tensor<3x4xf32>) -> tensor<?x?xi64, #sym.shape<[u0, u1]>>
    %1 = torch.call "aten.igammac.default"(%0, %0) args = [#sym.arg<0>, #sym.arg<1>] {node = "igammac"} : (tensor<?x?xi64, #sym.shape<[u0, u1]>>, tensor<?x?xi64, #sym.shape<[u0, u1]>>) -> tensor<?x?xf32, #sym.shape<[u0, u1]>>
    return %1 : tensor<?x?xf32, #sym.shape<[u0, u1]>>
  }
}

// -----

// A number in the place of the tensor that the call writes.
func.func @written_number() -> tensor<4xf32> {
  // expected-error@+1 {{aten.add_.Tensor: it has no lowering}}
  %0 = torch.call "aten.add_.Tensor"() args = [-1, 1, 1] {node = "add_", updates = array<i64>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Training draws noise, which the call would have to count.
func.func @rrelu(%x: tensor<4xf32>, %noise: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{cannot compile aten.rrelu_with_noise_functional.default: training}}
  %0:2 = torch.call "aten.rrelu_with_noise_functional.default"(%x, %noise) args = [#sym.arg<0>, #sym.arg<1>, 1.000000e-01, 3.000000e-01, true, unit] {node = "rrelu"} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0 : tensor<4xf32>
}
