// RUN: kiln-opt %s --mark-extern="generators=cublas{search=4 workspace=1024}" --outline-extern --generate-extern="generators=cublas{search=4 workspace=1024}" --declare-extern --lower-extern --split-input-file | FileCheck %s --check-prefixes=CHECK,EXACT
// RUN: kiln-opt %s --mark-extern="generators=cublas{finite=true}" --outline-extern --generate-extern="generators=cublas{finite=true}" --declare-extern --lower-extern --split-input-file | FileCheck %s --check-prefixes=CHECK,FINITE

// A product with its bias, a sum and gelu is one call; how many algorithms are timed comes last, and the workspace is a result.
// CHECK-LABEL: func.func @matmul
// EXACT: %[[Y:.*]]:2 = kernel.extern "cublas" "matmul"(%arg0, %arg1, %arg2, %arg3) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, true, ["add", "gelu_tanh"], #sym.arg<3>, 4] projection = [0, 1] : {{.*}} -> (tensor<?x16xbf16, #sym.shape<[s0, 16]>>, tensor<1024xui8>)
// EXACT: return %[[Y]]#0
// FINITE: %[[Y:.*]]:2 = kernel.extern "cublas" "matmul"{{.*}}["add", "gelu_tanh"], #sym.arg<3>, 1] {{.*}}tensor<33554432xui8>)
func.func @matmul(%x: tensor<?x8xbf16, #sym.shape<[s0, 8]>>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>, %c: tensor<?x16xbf16, #sym.shape<[s0, 16]>>) -> tensor<?x16xbf16, #sym.shape<[s0, 16]>> {
  %0 = torch.call "aten.linear.default"(%x, %w, %b) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>] {node = "linear"} : (tensor<?x8xbf16, #sym.shape<[s0, 8]>>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16, #sym.shape<[s0, 16]>>
  %1 = torch.call "aten.add.Tensor"(%c, %0) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add"} : (tensor<?x16xbf16, #sym.shape<[s0, 16]>>, tensor<?x16xbf16, #sym.shape<[s0, 16]>>) -> tensor<?x16xbf16, #sym.shape<[s0, 16]>>
  %2 = torch.call "aten.gelu.default"(%1) args = [#sym.arg<0>, "tanh"] {node = "gelu"} : (tensor<?x16xbf16, #sym.shape<[s0, 16]>>) -> tensor<?x16xbf16, #sym.shape<[s0, 16]>>
  return %2 : tensor<?x16xbf16, #sym.shape<[s0, 16]>>
}

// -----

// Only one function comes behind a product, and no sum behind that; gelu with erf never does. relu is one where all is finite.
// CHECK-LABEL: func.func @chains
// EXACT: kernel.extern "cublas" "matmul"{{.*}}unit, true, [], 4]
// EXACT: torch.call "aten.relu.default"
// EXACT: torch.call "aten.add.Tensor"
// FINITE: kernel.extern "cublas" "matmul"{{.*}}unit, true, ["relu"], 1]
// FINITE: torch.call "aten.add.Tensor"
// CHECK: kernel.extern "cublas" "matmul"{{.*}}unit, true, [], {{[14]}}]
// CHECK: torch.call "aten.gelu.default"
// CHECK-NOT: kernel.extern
// CHECK: torch.call "aten.mm.default"
func.func @chains(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %d: tensor<4x4xf64>) -> (tensor<4x8xf32>, tensor<4x4xf64>) {
  %0 = torch.call "aten.linear.default"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>, unit] {node = "linear"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = torch.call "aten.relu.default"(%0) args = [#sym.arg<0>] {node = "relu"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = torch.call "aten.add.Tensor"(%1, %x) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = torch.call "aten.linear.default"(%2, %w) args = [#sym.arg<0>, #sym.arg<1>, unit] {node = "linear_1"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %4 = torch.call "aten.gelu.default"(%3) args = [#sym.arg<0>, "none"] {node = "gelu"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = torch.call "aten.mm.default"(%d, %d) args = [#sym.arg<0>, #sym.arg<1>] {node = "mm"} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  return %4, %5 : tensor<4x8xf32>, tensor<4x4xf64>
}

// -----

// A sum whose number of terms only the run knows, and of which there is at least one.
// CHECK-LABEL: func.func @dynamic_terms
// CHECK: kernel.extern "cublas" "matmul"
// CHECK-NOT: torch.call
module attributes {sym.symbols = {s0 = {min = 1 : i64}}} {
func.func @dynamic_terms(%a: tensor<4x?xf32, #sym.shape<[4, s0]>>, %b: tensor<?x8xf32, #sym.shape<[s0, 8]>>) -> tensor<4x8xf32> {
  %0 = torch.call "aten.mm.default"(%a, %b) args = [#sym.arg<0>, #sym.arg<1>] {node = "mm"} : (tensor<4x?xf32, #sym.shape<[4, s0]>>, tensor<?x8xf32, #sym.shape<[s0, 8]>>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
}
