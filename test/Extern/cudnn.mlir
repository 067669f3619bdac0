// RUN: kiln-opt %s --mark-extern="generators=cudnn{workspace=1024}" --outline-extern --generate-extern="generators=cudnn{workspace=1024}" --declare-extern --lower-extern --split-input-file | FileCheck %s --check-prefixes=CHECK,EXACT
// RUN: kiln-opt %s --mark-extern="generators=cudnn{workspace=1024 finite=true tf32=true}" --outline-extern --generate-extern="generators=cudnn{workspace=1024 finite=true tf32=true}" --declare-extern --lower-extern --split-input-file | FileCheck %s --check-prefixes=CHECK,FINITE

// A convolution with its bias, a sum and relu is one call. Behind its own arguments stand whether all is finite and whether TF32 will do; the
// workspace has room for a copy of each tensor.
// CHECK-LABEL: func.func @convolution
// EXACT: %[[Y:.*]]:2 = kernel.extern "cudnn" "convolution"(%arg0, %arg1, %arg2, %arg3) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, [2, 2], [1, 1], [1, 1], [1], false, false, ["add"], #sym.arg<3>, false, false] projection = [0, 1] : {{.*}} -> (tensor<?x8x4x4xf32, #sym.shape<[s0, 8, 4, 4]>>, tensor<?xui8, #sym.shape<[max(1792*s0 + 3200, 0)]>>)
// EXACT: torch.call "aten.relu.default"
// FINITE: kernel.extern "cudnn" "convolution"({{.*}}) args = [{{.*}}, false, false, ["add", "relu"], #sym.arg<3>, true, true]
func.func @convolution(%x: tensor<?x3x8x8xf32, #sym.shape<[s0, 3, 8, 8]>>, %w: tensor<8x3x3x3xf32>, %b: tensor<8xf32>, %c: tensor<?x8x4x4xf32, #sym.shape<[s0, 8, 4, 4]>>) -> tensor<?x8x4x4xf32, #sym.shape<[s0, 8, 4, 4]>> {
  %0 = torch.call "aten.conv2d.default"(%x, %w, %b) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, [2, 2], [1, 1], [1, 1], 1] {node = "conv"} : (tensor<?x3x8x8xf32, #sym.shape<[s0, 3, 8, 8]>>, tensor<8x3x3x3xf32>, tensor<8xf32>) -> tensor<?x8x4x4xf32, #sym.shape<[s0, 8, 4, 4]>>
  %1 = torch.call "aten.add.Tensor"(%0, %c) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add"} : (tensor<?x8x4x4xf32, #sym.shape<[s0, 8, 4, 4]>>, tensor<?x8x4x4xf32, #sym.shape<[s0, 8, 4, 4]>>) -> tensor<?x8x4x4xf32, #sym.shape<[s0, 8, 4, 4]>>
  %2 = torch.call "aten.relu.default"(%1) args = [#sym.arg<0>] {node = "relu"} : (tensor<?x8x4x4xf32, #sym.shape<[s0, 8, 4, 4]>>) -> tensor<?x8x4x4xf32, #sym.shape<[s0, 8, 4, 4]>>
  return %2 : tensor<?x8x4x4xf32, #sym.shape<[s0, 8, 4, 4]>>
}

// -----

// The transpositions around a convolution with channels last go with it; an image that may be empty, gelu and double precision do not.
// CHECK-LABEL: func.func @orders
// CHECK: kernel.extern "cudnn" "convolution"(%arg0, %arg1) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], [1], true, true, [], {{.*}}]
// CHECK: kernel.extern "cudnn" "convolution"{{.*}} false, false, [], {{.*}}]
// CHECK: torch.call "aten.gelu.default"
// CHECK-NOT: kernel.extern
// CHECK: torch.call "aten.conv2d.default"
// CHECK: torch.call "aten.conv2d.default"
module attributes {sym.symbols = {s0 = {min = 0 : i64}}} {
func.func @orders(%x: tensor<2x5x6x4xbf16>, %w: tensor<8x4x1x1xbf16>, %y: tensor<2x4x5x5xbf16>, %e: tensor<2x4x?x5xbf16, #sym.shape<[2, 4, s0, 5]>>, %d: tensor<1x1x2x2xf64>)
    -> (tensor<2x5x6x8xbf16>, tensor<2x8x5x5xbf16>, tensor<2x8x?x5xbf16, #sym.shape<[2, 8, s0, 5]>>, tensor<1x1x1x1xf64>) {
  %0 = torch.call "aten.permute.default"(%x) args = [#sym.arg<0>, [0, 3, 1, 2]] {node = "a"} : (tensor<2x5x6x4xbf16>) -> tensor<2x4x5x6xbf16>
  %1 = torch.call "aten.conv2d.default"(%0, %w) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 1] {node = "b"} : (tensor<2x4x5x6xbf16>, tensor<8x4x1x1xbf16>) -> tensor<2x8x5x6xbf16>
  %2 = torch.call "aten.permute.default"(%1) args = [#sym.arg<0>, [0, 2, -1, 1]] {node = "c"} : (tensor<2x8x5x6xbf16>) -> tensor<2x5x6x8xbf16>
  %3 = torch.call "aten.conv2d.default"(%y, %w) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 1] {node = "d"} : (tensor<2x4x5x5xbf16>, tensor<8x4x1x1xbf16>) -> tensor<2x8x5x5xbf16>
  %4 = torch.call "aten.gelu.default"(%3) args = [#sym.arg<0>, "tanh"] {node = "e"} : (tensor<2x8x5x5xbf16>) -> tensor<2x8x5x5xbf16>
  %5 = torch.call "aten.conv2d.default"(%e, %w) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 1] {node = "f"} : (tensor<2x4x?x5xbf16, #sym.shape<[2, 4, s0, 5]>>, tensor<8x4x1x1xbf16>) -> tensor<2x8x?x5xbf16, #sym.shape<[2, 8, s0, 5]>>
  %6 = torch.call "aten.conv2d.default"(%d, %d) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 1] {node = "g"} : (tensor<1x1x2x2xf64>, tensor<1x1x2x2xf64>) -> tensor<1x1x1x1xf64>
  return %2, %4, %5, %6 : tensor<2x5x6x8xbf16>, tensor<2x8x5x5xbf16>, tensor<2x8x?x5xbf16, #sym.shape<[2, 8, s0, 5]>>, tensor<1x1x1x1xf64>
}
}

// -----

// Heads that lie behind the rows go with attention. A bias is added where all is finite; f32, features that are no multiple of eight and
// keys that may be none are left.
// CHECK-LABEL: func.func @attention
// CHECK: kernel.extern "cudnn" "attention"(%arg0, %arg1) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<1>, unit, 2.500000e-01, true, true, false, false, true, {{.*}}]
// EXACT-NOT: kernel.extern
// FINITE: kernel.extern "cudnn" "attention"({{.*}}) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<1>, #sym.arg<2>, 2.500000e-01, false, false, false, false, false, {{.*}}]
// CHECK-NOT: kernel.extern
// CHECK-COUNT-3: torch.call "aten.scaled_dot_product_attention.default"
module attributes {sym.symbols = {s0 = {min = 0 : i64}}} {
func.func @attention(%q: tensor<2x5x4x16xf16>, %k: tensor<2x2x7x16xf16>, %p: tensor<2x2x5x16xf16>, %m: tensor<5x7xf16>, %f: tensor<1x1x2x8xf32>, %o: tensor<1x1x2x9xf16>, %e: tensor<1x1x?x8xf16, #sym.shape<[1, 1, s0, 8]>>)
    -> (tensor<2x5x4x16xf16>, tensor<2x2x5x16xf16>, tensor<1x1x2x8xf32>, tensor<1x1x2x9xf16>, tensor<1x1x?x8xf16, #sym.shape<[1, 1, s0, 8]>>) {
  %0 = torch.call "aten.transpose.int"(%q) args = [#sym.arg<0>, 1, 2] {node = "a"} : (tensor<2x5x4x16xf16>) -> tensor<2x4x5x16xf16>
  %1 = torch.call "aten.scaled_dot_product_attention.default"(%0, %k, %k) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, unit, 0.0, true, unit, true] {node = "b"} : (tensor<2x4x5x16xf16>, tensor<2x2x7x16xf16>, tensor<2x2x7x16xf16>) -> tensor<2x4x5x16xf16>
  %2 = torch.call "aten.permute.default"(%1) args = [#sym.arg<0>, [0, 2, 1, 3]] {node = "c"} : (tensor<2x4x5x16xf16>) -> tensor<2x5x4x16xf16>
  %3 = torch.call "aten.scaled_dot_product_attention.default"(%p, %k, %k, %m) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, #sym.arg<3>, 0.0, false, unit, false] {node = "d"} : (tensor<2x2x5x16xf16>, tensor<2x2x7x16xf16>, tensor<2x2x7x16xf16>, tensor<5x7xf16>) -> tensor<2x2x5x16xf16>
  %4 = torch.call "aten.scaled_dot_product_attention.default"(%f, %f, %f) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, unit, 0.0, false, unit, false] {node = "e"} : (tensor<1x1x2x8xf32>, tensor<1x1x2x8xf32>, tensor<1x1x2x8xf32>) -> tensor<1x1x2x8xf32>
  %5 = torch.call "aten.scaled_dot_product_attention.default"(%o, %o, %o) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, unit, 0.0, false, unit, false] {node = "f"} : (tensor<1x1x2x9xf16>, tensor<1x1x2x9xf16>, tensor<1x1x2x9xf16>) -> tensor<1x1x2x9xf16>
  %6 = torch.call "aten.scaled_dot_product_attention.default"(%e, %e, %e) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, unit, 0.0, false, unit, false] {node = "g"} : (tensor<1x1x?x8xf16, #sym.shape<[1, 1, s0, 8]>>, tensor<1x1x?x8xf16, #sym.shape<[1, 1, s0, 8]>>, tensor<1x1x?x8xf16, #sym.shape<[1, 1, s0, 8]>>) -> tensor<1x1x?x8xf16, #sym.shape<[1, 1, s0, 8]>>
  return %2, %3, %4, %5, %6 : tensor<2x5x4x16xf16>, tensor<2x2x5x16xf16>, tensor<1x1x2x8xf32>, tensor<1x1x2x9xf16>, tensor<1x1x?x8xf16, #sym.shape<[1, 1, s0, 8]>>
}
}
