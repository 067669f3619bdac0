// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Two by two samples of each bin, channels innermost.
// CHECK-LABEL: func.func @given(
// CHECK: %[[MEANS:.*]] = kernel.map
// CHECK: kernel.reduce [2, 2]
// CHECK-COUNT-4: kernel.read %arg0 (d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d6, d3, d7, d8) values(
// CHECK: : tensor<5x7x7x3xf32>
// CHECK: kernel.read %[[MEANS]] (d0, d1, d2, d3) -> (d0, d2, d3, d1)
func.func @given(%x: tensor<2x3x20x30xf32>, %rois: tensor<5x5xf32>) -> tensor<5x3x7x7xf32> {
  %0 = torch.call "torchvision.roi_align.default"(%x, %rois) args = [#sym.arg<0>, #sym.arg<1>, 2.500000e-01, 7, 7, 2, true] {node = "roi"} : (tensor<2x3x20x30xf32>, tensor<5x5xf32>) -> tensor<5x3x7x7xf32>
  return %0 : tensor<5x3x7x7xf32>
}

// -----

// As many samples as the bins of the largest region have elements: sizes of their own.
// CHECK: sym.symbols = {size0 = {max = 9 : i64}, size1 = {min = 0 : i64}, size2 = {min = 0 : i64}}
module attributes {sym.symbols = {size0 = {max = 9 : i64}}} {
  // CHECK-LABEL: func.func @found(
  // CHECK: kernel.define "size1" from
  // CHECK: kernel.define "size2" from
  // CHECK: kernel.reduce [size1, size2]
  func.func @found(%x: tensor<2x3x20x30xf32>, %rois: tensor<5x5xf32>) -> tensor<5x3x7x7xf32> {
    %0 = torch.call "torchvision.roi_align.default"(%x, %rois) args = [#sym.arg<0>, #sym.arg<1>, 2.500000e-01, 7, 7, -1, true] {node = "roi"} : (tensor<2x3x20x30xf32>, tensor<5x5xf32>) -> tensor<5x3x7x7xf32>
    return %0 : tensor<5x3x7x7xf32>
  }
}

// -----

// Channel c of bin (i, j) is channel (c * 3 + i) * 2 + j of the input.
// CHECK-LABEL: func.func @own_channels(
// CHECK-COUNT-4: kernel.read %arg0 (d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d6, 2*d1 + d2 + 6*d3, d7, d8) values(
func.func @own_channels(%x: tensor<2x12x20x30xf32>, %rois: tensor<5x5xf32>) -> (tensor<5x2x3x2xf32>, tensor<5x2x3x2xi32>) {
  %0:2 = torch.call "torchvision.ps_roi_align.default"(%x, %rois) args = [#sym.arg<0>, #sym.arg<1>, 2.500000e-01, 3, 2, 2] {node = "roi"} : (tensor<2x12x20x30xf32>, tensor<5x5xf32>) -> (tensor<5x2x3x2xf32>, tensor<5x2x3x2xi32>)
  return %0#0, %0#1 : tensor<5x2x3x2xf32>, tensor<5x2x3x2xi32>
}
