// RUN: kiln-opt %s --mark-extern="generators=onednn{elsewhere=true}" --outline-extern --generate-extern="generators=onednn{elsewhere=true}" --declare-extern --lower-extern | FileCheck %s

// oneDNN's relu, gelu with erf and maxima differ for NaN or infinity: without finite=true they are left alone. So is batch
// normalisation's relu.
// CHECK-LABEL: func.func @special
// CHECK: kernel.extern "onednn" "matmul"({{.*}}) args = [#sym.arg<0>, #sym.arg<1>, unit, true, []]
// CHECK: torch.call "aten.relu.default"
// CHECK: kernel.extern "onednn" "matmul"({{.*}}) args = [#sym.arg<0>, #sym.arg<1>, unit, true, ["gelu_tanh"]]
// CHECK: kernel.extern "onednn" "matmul"({{.*}}) args = [#sym.arg<0>, #sym.arg<1>, unit, true, []]
// CHECK: torch.call "aten.gelu.default"
// CHECK: kernel.extern "onednn" "batch_norm"({{.*}} 1.000000e-05, false]
// CHECK: torch.call "aten.relu.default"
// CHECK: torch.call "aten.max_pool2d.default"
// CHECK: kernel.extern "onednn" "pooling"({{.*}}) args = [#sym.arg<0>, "avg",
func.func @special(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %i: tensor<1x8x8x8xf32>, %b: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<1x8x2x2xf32>) {
  %0 = torch.call "aten.linear.default"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>, unit] {node = "a"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = torch.call "aten.relu.default"(%0) args = [#sym.arg<0>] {node = "b"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = torch.call "aten.linear.default"(%1, %w) args = [#sym.arg<0>, #sym.arg<1>, unit] {node = "c"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = torch.call "aten.gelu.default"(%2) args = [#sym.arg<0>, "tanh"] {node = "d"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = torch.call "aten.linear.default"(%3, %w) args = [#sym.arg<0>, #sym.arg<1>, unit] {node = "e"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = torch.call "aten.gelu.default"(%4) args = [#sym.arg<0>, "none"] {node = "f"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %6 = torch.call "aten.batch_norm.default"(%i, %b, %b, %b, %b) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, #sym.arg<3>, #sym.arg<4>, false, 0.1, 1.0e-05, true] {node = "g"} : (tensor<1x8x8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x8x8xf32>
  %7 = torch.call "aten.relu.default"(%6) args = [#sym.arg<0>] {node = "h"} : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %8 = torch.call "aten.max_pool2d.default"(%7) args = [#sym.arg<0>, [2, 2], [], [0, 0], [1, 1], false] {node = "i"} : (tensor<1x8x8x8xf32>) -> tensor<1x8x4x4xf32>
  %9 = torch.call "aten.avg_pool2d.default"(%8) args = [#sym.arg<0>, [2, 2], [2, 2], [0, 0], false, true, unit] {node = "j"} : (tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xf32>
  return %5, %9 : tensor<8x8xf32>, tensor<1x8x2x2xf32>
}
