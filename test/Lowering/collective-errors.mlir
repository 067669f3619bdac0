// RUN: kiln-opt %s --torch-lower-to-kernel --verify-diagnostics --split-input-file

func.func @unknown_group(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{the program does not say how many processes the group '0' has (--ranks)}}
  %0 = torch.call "_c10d_functional.all_reduce.default"(%x) args = [#sym.arg<0>, "sum", "0"] {node = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @reduction(%x: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error @below {{'premul_sum': only sum, avg, min, max and product are known}}
  %0 = torch.call "_c10d_functional.reduce_scatter_tensor.default"(%x) args = [#sym.arg<0>, "premul_sum", 2, "0"] {node = "a"} : (tensor<4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @average(%x: tensor<4xi64>) -> tensor<2xi64> {
  // expected-error @below {{'avg': an average is of floats}}
  %0 = torch.call "_c10d_functional.reduce_scatter_tensor.default"(%x) args = [#sym.arg<0>, "avg", 2, "0"] {node = "a"} : (tensor<4xi64>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}

// -----

func.func @complex(%x: tensor<4xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  // expected-error @below {{only floats of at least 16 bits, integers and bool are combined}}
  %0 = torch.call "_c10d_functional.reduce_scatter_tensor.default"(%x) args = [#sym.arg<0>, "sum", 2, "0"] {node = "a"} : (tensor<4xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return %0 : tensor<2xcomplex<f32>>
}

// -----

func.func @rest(%x: tensor<5xf32>) -> tensor<2xf32> {
  // expected-error @below {{rows that cannot be divided among 2 processes}}
  %0 = torch.call "_c10d_functional.reduce_scatter_tensor.default"(%x) args = [#sym.arg<0>, "sum", 2, "0"] {node = "a"} : (tensor<5xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @scalar(%x: tensor<f32>) -> tensor<2xf32> {
  // expected-error @below {{a tensor without dims}}
  %0 = torch.call "_c10d_functional.all_gather_into_tensor.default"(%x) args = [#sym.arg<0>, 2, "0"] {node = "a"} : (tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @no_ranks(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{a group of 0 processes}}
  %0 = torch.call "_c10d_functional.all_gather_into_tensor.default"(%x) args = [#sym.arg<0>, 0, "0"] {node = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @shape(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{computes another shape than the program declares}}
  %0 = torch.call "_c10d_functional.all_gather_into_tensor.default"(%x) args = [#sym.arg<0>, 2, "0"] {node = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @parts(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{input_split_sizes does not add up to the rows}}
  %0 = torch.call "_c10d_functional.all_to_all_single.default"(%x) args = [#sym.arg<0>, [2, 2], [1, 2], "0"] {node = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @number_of_parts(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{3 parts for 2 processes}}
  %0 = torch.call "_c10d_functional.all_to_all_single.default"(%x) args = [#sym.arg<0>, [2, 2], [1, 2, 1], "0"] {node = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @negative_part(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{a part of input_split_sizes is negative}}
  %0 = torch.call "_c10d_functional.all_to_all_single.default"(%x) args = [#sym.arg<0>, [2, 2], [5, -1], "0"] {node = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @group(%x: tensor<4xf32>) -> tensor<8xf32> {
  // expected-error @below {{a group of processes that is not given by its name}}
  %0 = torch.call "_c10d_functional.all_gather_into_tensor.default"(%x) args = [#sym.arg<0>, 2, [0, 1]] {node = "a"} : (tensor<4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @root(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "_c10d_functional.all_gather_into_tensor.default"(%x) args = [#sym.arg<0>, 2, "0"] {node = "a"} : (tensor<4xf32>) -> tensor<8xf32>
  // expected-error @below {{rank 2 of 2}}
  %1 = torch.call "_c10d_functional.broadcast.default"(%x) args = [#sym.arg<0>, 2, "0"] {node = "b"} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
