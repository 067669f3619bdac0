// RUN: kiln-opt %s | kiln-opt | FileCheck %s
// RUN: kiln-opt %s --cse --canonicalize | FileCheck %s --check-prefix=CLEAN

// CHECK-LABEL: func.func @results
// CHECK: %[[R:.*]]:2 = kernel.extern "torch" "aten.topk.default"(%{{.*}}) args = [#sym.arg<0>, #sym.expr<s0 - 1>, -1, true, true] projection = [1, 0]
func.func @results(%x: tensor<?xf32, #sym.shape<[s0]>>) -> (tensor<?xi64, #sym.shape<[s0 - 1]>>, tensor<?xf32, #sym.shape<[s0 - 1]>>) {
  %i, %v = kernel.extern "torch" "aten.topk.default"(%x) args = [#sym.arg<0>, #sym.expr<s0 - 1>, -1, true, true] projection = [1, 0]
      : (tensor<?xf32, #sym.shape<[s0]>>) -> (tensor<?xi64, #sym.shape<[s0 - 1]>>, tensor<?xf32, #sym.shape<[s0 - 1]>>)
  return %i, %v : tensor<?xi64, #sym.shape<[s0 - 1]>>, tensor<?xf32, #sym.shape<[s0 - 1]>>
}

// CHECK-LABEL: func.func @updates
// CHECK: kernel.extern "torch" "lib.op.default"(%{{.*}}, %{{.*}}) args = {{\[}}[#sym.arg<1>, unit], #sym.scalar<0>, #sym.dtype<f64>] names = ["many", "factor", "dtype"] projection = [] updates = [1]
func.func @updates(%n: tensor<f64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.extern "torch" "lib.op.default"(%n, %x) args = [[#sym.arg<1>, unit], #sym.scalar<0>, #sym.dtype<f64>]
      names = ["many", "factor", "dtype"] projection = [] updates = [1] : (tensor<f64>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// Two draws are two draws, and an assertion that nobody looks at stays; a value that is computed twice is one, and one that
// is not used is none.
// CLEAN-LABEL: func.func @effects
// CLEAN-COUNT-2: "aten.poisson.default"
// CLEAN-COUNT-1: "aten.special_airy_ai.default"
// CLEAN-NOT: aten.special_airy_ai
// CLEAN: "aten._assert_async.default"(%{{.*}}) args = [#sym.arg<0>] projection = [] impure
func.func @effects(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = kernel.extern "torch" "aten.poisson.default"(%x) args = [#sym.arg<0>, unit] projection = [0] impure : (tensor<4xf32>) -> tensor<4xf32>
  %b = kernel.extern "torch" "aten.poisson.default"(%x) args = [#sym.arg<0>, unit] projection = [0] impure : (tensor<4xf32>) -> tensor<4xf32>
  %c = kernel.extern "torch" "aten.special_airy_ai.default"(%x) args = [#sym.arg<0>] projection = [0] : (tensor<4xf32>) -> tensor<4xf32>
  %d = kernel.extern "torch" "aten.special_airy_ai.default"(%x) args = [#sym.arg<0>] projection = [0] : (tensor<4xf32>) -> tensor<4xf32>
  %e = kernel.extern "torch" "aten.special_airy_ai.default"(%a) args = [#sym.arg<0>] projection = [0] : (tensor<4xf32>) -> tensor<4xf32>
  kernel.extern "torch" "aten._assert_async.default"(%x) args = [#sym.arg<0>] projection = [] impure : (tensor<4xf32>) -> ()
  return %a, %b, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A call that says how large its results are, and what fetches them. Two equal ones keep their results each.
// CHECK-LABEL: func.func @sizes
// CHECK: %[[R:.*]]:2 = kernel.extern "torch" "lib.where.default"(%{{.*}}) args = [#sym.arg<0>] projection = [] sizes = [0, 1] impure
// CHECK: kernel.extern "torch" "kiln.results"(%[[R]]#1) args = [#sym.arg<0>] projection = [0] impure
// CLEAN-LABEL: func.func @sizes
// CLEAN-COUNT-2: sizes = [0, 1] impure
func.func @sizes(%x: tensor<8xf32>) -> tensor<2x?xf32, #sym.shape<[2, u0]>> {
  %n, %kept = kernel.extern "torch" "lib.where.default"(%x) args = [#sym.arg<0>] projection = [] sizes = [0, 1] impure : (tensor<8xf32>) -> (tensor<i64>, tensor<i64>)
  %m, %other = kernel.extern "torch" "lib.where.default"(%x) args = [#sym.arg<0>] projection = [] sizes = [0, 1] impure : (tensor<8xf32>) -> (tensor<i64>, tensor<i64>)
  kernel.define "u0" from %n : tensor<i64>
  %y = kernel.extern "torch" "kiln.results"(%kept) args = [#sym.arg<0>] projection = [0] impure : (tensor<i64>) -> tensor<2x?xf32, #sym.shape<[2, u0]>>
  return %y : tensor<2x?xf32, #sym.shape<[2, u0]>>
}
