// RUN: kiln-opt %s --mark-extern="generators=onednn{elsewhere=true bf16=true}" --outline-extern --generate-extern="generators=onednn{elsewhere=true bf16=true}" --declare-extern --lower-extern | FileCheck %s --check-prefixes=CHECK,EXACT
// RUN: kiln-opt %s --mark-extern="generators=onednn{elsewhere=true bf16=true finite=true}" --outline-extern --generate-extern="generators=onednn{elsewhere=true bf16=true finite=true}" --declare-extern --lower-extern | FileCheck %s --check-prefixes=CHECK,FINITE
// RUN: kiln-opt %s --mark-extern="generators=onednn{elsewhere=true finite=true}" | FileCheck %s --check-prefix=WITHOUT

// Products in bf16; convolutions where all is finite; no normalisation, and nothing in f16.
// CHECK-LABEL: func.func @main
// CHECK: kernel.extern "onednn" "matmul"
// EXACT: torch.call "aten.conv1d.default"
// FINITE: kernel.extern "onednn" "convolution"
// CHECK-NOT: kernel.extern
// CHECK: torch.call "aten.layer_norm.default"
// CHECK: torch.call "aten.mm.default"
// WITHOUT-NOT: kernel.extern
func.func @main(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>, %i: tensor<1x2x5xbf16>, %k: tensor<3x2x3xbf16>, %h: tensor<4x4xf16>)
    -> (tensor<4x8xbf16>, tensor<1x3x3xbf16>, tensor<4x8xbf16>, tensor<4x4xf16>) {
  %0 = torch.call "aten.linear.default"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>, unit] {node = "a"} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %1 = torch.call "aten.conv1d.default"(%i, %k) args = [#sym.arg<0>, #sym.arg<1>, unit, [1], [0], [1], 1] {node = "b"} : (tensor<1x2x5xbf16>, tensor<3x2x3xbf16>) -> tensor<1x3x3xbf16>
  %2 = torch.call "aten.layer_norm.default"(%x) args = [#sym.arg<0>, [8], unit, unit, 1.0e-05, true] {node = "c"} : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %3 = torch.call "aten.mm.default"(%h, %h) args = [#sym.arg<0>, #sym.arg<1>] {node = "d"} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  return %0, %1, %2, %3 : tensor<4x8xbf16>, tensor<1x3x3xbf16>, tensor<4x8xbf16>, tensor<4x4xf16>
}
