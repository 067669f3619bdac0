// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// The size of a group is said by any call of it; "mean" is an average; nothing waits.
// CHECK-LABEL: func.func @reduce
// CHECK: %[[A:.*]] = kernel.collective "all_reduce"(%arg0) reduction "avg" group "7" of 4 : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK: %[[B:.*]] = kernel.collective "reduce_scatter"(%[[A]]) reduction "sum" group "7" of 4 : tensor<4x8xf32> -> tensor<1x8xf32>
// CHECK: %[[C:.*]] = kernel.collective "broadcast"(%[[B]]) root 3 group "7" of 4 : tensor<1x8xf32> -> tensor<1x8xf32>
// CHECK: return %[[C]]
func.func @reduce(%x: tensor<4x8xf32>) -> tensor<1x8xf32> {
  %0 = torch.call "_c10d_functional.all_reduce.default"(%x) args = [#sym.arg<0>, "mean", "7"] {node = "a"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = torch.call "_c10d_functional.wait_tensor.default"(%0) args = [#sym.arg<0>] {node = "w"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = torch.call "_c10d_functional.reduce_scatter_tensor.default"(%1) args = [#sym.arg<0>, "SUM", 4, "7"] {node = "b"} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %3 = torch.call "_c10d_functional.broadcast.default"(%2) args = [#sym.arg<0>, 3, "7"] {node = "c"} : (tensor<1x8xf32>) -> tensor<1x8xf32>
  return %3 : tensor<1x8xf32>
}

// -----

// Several tensors at once are as many collectives.
// CHECK-LABEL: func.func @coalesced
// CHECK: kernel.collective "all_gather"(%arg0) group "0" of 2 : tensor<4xf32> -> tensor<8xf32>
// CHECK: kernel.collective "all_gather"(%arg1) group "0" of 2 : tensor<3xi64> -> tensor<6xi64>
func.func @coalesced(%x: tensor<4xf32>, %y: tensor<3xi64>) -> (tensor<8xf32>, tensor<6xi64>) {
  %0:2 = torch.call "_c10d_functional.all_gather_into_tensor_coalesced.default"(%x, %y) args = [[#sym.arg<0>, #sym.arg<1>], 2, "0"] {node = "a"} : (tensor<4xf32>, tensor<3xi64>) -> (tensor<8xf32>, tensor<6xi64>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<6xi64>
}

// -----

// Sizes that only a run gives are asserted to be what the parts add up to. The number of processes comes from a command line.
// CHECK-LABEL: func.func @sizes
// CHECK: kernel.assert
// CHECK: kernel.collective "reduce_scatter"(%arg0) reduction "max" group "0" of 2 : tensor<?xf32, #sym.shape<[n]>> -> tensor<?xf32, #sym.shape<[n floordiv 2]>>
// CHECK: kernel.collective "all_to_all"(%arg0) send <[1, n - 1]> receive <[1, 2*n]> group "0" of 2
// CHECK: kernel.collective "all_reduce"(%arg0) reduction "min" group "other" of 6
module attributes {torch.ranks = 6 : i64, sym.symbols = {n = {min = 1 : i64}}} {
  func.func @sizes(%x: tensor<?xf32, #sym.shape<[n]>>) -> (tensor<?xf32, #sym.shape<[n floordiv 2]>>, tensor<?xf32, #sym.shape<[2*n + 1]>>, tensor<?xf32, #sym.shape<[n]>>) {
    %0 = torch.call "_c10d_functional.reduce_scatter_tensor.default"(%x) args = [#sym.arg<0>, "max", 2, "0"] {node = "a"} : (tensor<?xf32, #sym.shape<[n]>>) -> tensor<?xf32, #sym.shape<[n floordiv 2]>>
    %1 = torch.call "_c10d_functional.all_to_all_single.default"(%x) args = [#sym.arg<0>, [1, #sym.expr<2*n>], [1, #sym.expr<n - 1>], "0"] {node = "b"} : (tensor<?xf32, #sym.shape<[n]>>) -> tensor<?xf32, #sym.shape<[2*n + 1]>>
    %2 = torch.call "_c10d_functional.all_reduce.default"(%x) args = [#sym.arg<0>, "min", "other"] {node = "c"} : (tensor<?xf32, #sym.shape<[n]>>) -> tensor<?xf32, #sym.shape<[n]>>
    return %0, %1, %2 : tensor<?xf32, #sym.shape<[n floordiv 2]>>, tensor<?xf32, #sym.shape<[2*n + 1]>>, tensor<?xf32, #sym.shape<[n]>>
  }
}
