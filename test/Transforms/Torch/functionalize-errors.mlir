// RUN: kiln-opt %s --torch-functionalize --verify-diagnostics --split-input-file

// Whether `reshape` copied depends on strides, and the original is used after the write.
func.func @reshaped(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<6xf32>) {
  %0 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "relu"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = torch.call "aten.reshape.default"(%0) args = [#sym.arg<0>, [6]] {node = "reshape"} : (tensor<2x3xf32>) -> tensor<6xf32>
  %2 = torch.call "aten.mul_.Scalar"(%1) args = [#sym.arg<0>, 2] {node = "mul_"} : (tensor<6xf32>) -> tensor<6xf32>
  // expected-error@+1 {{cannot tell whether a tensor shares memory with one that was written}}
  %3 = torch.call "aten.neg.default"(%0) args = [#sym.arg<0>] {node = "neg"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %3, %2 : tensor<2x3xf32>, tensor<6xf32>
}

// -----

// The write might have to reach the input.
func.func @input(%x: tensor<2x3xf32> {torch.name = "x"}) -> tensor<6xf32> {
  %0 = torch.call "aten.reshape.default"(%x) args = [#sym.arg<0>, [6]] {node = "reshape"} : (tensor<2x3xf32>) -> tensor<6xf32>
  // expected-error@+1 {{aten.mul_.Scalar: cannot tell whether it writes an input or a buffer, through 'aten.reshape.default'}}
  %1 = torch.call "aten.mul_.Scalar"(%0) args = [#sym.arg<0>, 2] {node = "mul_"} : (tensor<6xf32>) -> tensor<6xf32>
  return %1 : tensor<6xf32>
}

// -----

// One element in many places cannot be written.
func.func @expanded(%x: tensor<1xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.expand.default"(%x) args = [#sym.arg<0>, [4], false] {node = "expand"} : (tensor<1xf32>) -> tensor<4xf32>
  // expected-error@+1 {{aten.mul_.Scalar: cannot write through 'aten.expand.default'}}
  %1 = torch.call "aten.mul_.Scalar"(%0) args = [#sym.arg<0>, 2] {node = "mul_"} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Two results in one memory.
func.func @overlapping(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.clone.default"(%x) args = [#sym.arg<0>, unit] {node = "clone"} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{aten._foreach_neg_.default: it writes two tensors that share memory}}
  torch.call "aten._foreach_neg_.default"(%0, %0) args = [[#sym.arg<0>, #sym.arg<1>]] {node = "neg_"} : (tensor<4xf32>, tensor<4xf32>) -> ()
  return %0 : tensor<4xf32>
}

// -----

// A view still has the old shape.
func.func @resized(%x: tensor<4xf32>) -> (tensor<6xf32>, tensor<4xf32>) {
  %0 = torch.call "aten.clone.default"(%x) args = [#sym.arg<0>, unit] {node = "clone"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = torch.call "aten.detach.default"(%0) args = [#sym.arg<0>] {node = "detach"} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{aten.resize_.default: it changes the shape of what it writes}}
  %2 = torch.call "aten.resize_.default"(%0) args = [#sym.arg<0>, [6], unit] {node = "resize_"} : (tensor<4xf32>) -> tensor<6xf32>
  return %2, %1 : tensor<6xf32>, tensor<4xf32>
}

// -----

// What is beyond the two elements is still in memory.
func.func @resized_again(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.clone.default"(%x) args = [#sym.arg<0>, unit] {node = "clone"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = torch.call "aten.resize_.default"(%0) args = [#sym.arg<0>, [2], unit] {node = "resize_"} : (tensor<4xf32>) -> tensor<2xf32>
  // expected-error@+1 {{aten.resize_.default: it changes the shape of what it writes}}
  %2 = torch.call "aten.resize_.default"(%1) args = [#sym.arg<0>, [4], unit] {node = "resize_again"} : (tensor<2xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

func.func @resized_input(%x: tensor<4xf32> {torch.name = "x"}) -> tensor<6xf32> {
  // expected-error@+1 {{aten.resize_.default: it changes the shape of what it writes}}
  %0 = torch.call "aten.resize_.default"(%x) args = [#sym.arg<0>, [6], unit] {node = "resize_"} : (tensor<4xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// In windows that overlap, the last of an element's several values depends on strides.
func.func @windows(%x: tensor<6xf32>) -> tensor<6xf32> {
  %0 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "relu"} : (tensor<6xf32>) -> tensor<6xf32>
  %1 = torch.call "aten.unfold.default"(%0) args = [#sym.arg<0>, 0, 3, 2] {node = "unfold"} : (tensor<6xf32>) -> tensor<2x3xf32>
  // expected-error@+1 {{aten.mul_.Scalar: cannot write through 'aten.unfold.default'}}
  %2 = torch.call "aten.mul_.Scalar"(%1) args = [#sym.arg<0>, 2] {node = "mul_"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<6xf32>
}

// -----

// `view` would have to change with `all`.
func.func @views_of_one_storage() -> tensor<2xf32> {
  // expected-error@+1 {{the program writes buffer 'all', and reads 'view', which is another view of the same memory}}
  %all = torch.constant "all" = dense<0.0> : tensor<4xf32> {kind = "buffer", overlaps = ["unused", "view"]}
  %unused = torch.constant "unused" = dense<0.0> : tensor<3xf32> {kind = "buffer", overlaps = ["all"]}
  %view = torch.constant "view" = dense<0.0> : tensor<2xf32> {kind = "buffer", overlaps = ["all"]}
  %0 = torch.call "aten.add_.Tensor"(%all) args = [#sym.arg<0>, 1, 1] {node = "add_"} : (tensor<4xf32>) -> tensor<4xf32>
  return %view : tensor<2xf32>
}
