// RUN: kiln-opt %s --torch-convolve-before-upsample | FileCheck %s

// The images that are made larger are convolved first, with their channels' weights; the bias is added once.
// CHECK-LABEL: func.func @side_by_side
// CHECK-SAME: %[[A:.*]]: tensor<1x64x4x4xf32>, %[[B:.*]]: tensor<1x32x16x16xf32>, %[[C:.*]]: tensor<1x64x8x8xf32>, %[[W:.*]]: tensor<48x160x1x1xf32>, %[[BIAS:.*]]: tensor<48xf32>
// CHECK-NEXT: %[[WB:.*]] = torch.call "aten.slice.Tensor"(%[[W]]) args = [#sym.arg<0>, 1, 64, 96, 1] {{.*}} -> tensor<48x32x1x1xf32>
// CHECK-NEXT: %[[YB:.*]] = torch.call "aten.conv2d.default"(%[[B]], %[[WB]], %[[BIAS]]) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, [1, 1], [0, 0], [1, 1], 1] {{.*}} -> tensor<1x48x16x16xf32>
// CHECK-NEXT: %[[WA:.*]] = torch.call "aten.slice.Tensor"(%[[W]]) args = [#sym.arg<0>, 1, 0, 64, 1] {{.*}} -> tensor<48x64x1x1xf32>
// CHECK-NEXT: %[[YA:.*]] = torch.call "aten.conv2d.default"(%[[A]], %[[WA]]) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 1] {{.*}} -> tensor<1x48x4x4xf32>
// CHECK-NEXT: %[[UA:.*]] = torch.call "aten.upsample_bilinear2d.vec"(%[[YA]]) args = [#sym.arg<0>, [16, 16], false, unit] {{.*}} -> tensor<1x48x16x16xf32>
// CHECK-NEXT: %[[AB:.*]] = torch.call "aten.add.Tensor"(%[[YB]], %[[UA]])
// CHECK-NEXT: %[[WC:.*]] = torch.call "aten.slice.Tensor"(%[[W]]) args = [#sym.arg<0>, 1, 96, 160, 1]
// CHECK-NEXT: %[[YC:.*]] = torch.call "aten.conv2d.default"(%[[C]], %[[WC]]) {{.*}} -> tensor<1x48x8x8xf32>
// CHECK-NEXT: %[[UC:.*]] = torch.call "aten.upsample_bilinear2d.default"(%[[YC]]) args = [#sym.arg<0>, [16, 16], true, unit, unit]
// CHECK-NEXT: %[[ABC:.*]] = torch.call "aten.add.Tensor"(%[[AB]], %[[UC]])
// CHECK-NEXT: return %[[ABC]]
func.func @side_by_side(%a: tensor<1x64x4x4xf32>, %b: tensor<1x32x16x16xf32>, %c: tensor<1x64x8x8xf32>, %w: tensor<48x160x1x1xf32>, %bias: tensor<48xf32>) -> tensor<1x48x16x16xf32> {
  %0 = torch.call "aten.upsample_bilinear2d.vec"(%a) args = [#sym.arg<0>, [16, 16], false, unit] {node = "up_a"} : (tensor<1x64x4x4xf32>) -> tensor<1x64x16x16xf32>
  %1 = torch.call "aten.upsample_bilinear2d.default"(%c) args = [#sym.arg<0>, [16, 16], true, unit, unit] {node = "up_c"} : (tensor<1x64x8x8xf32>) -> tensor<1x64x16x16xf32>
  %2 = torch.call "aten.cat.default"(%0, %b, %1) args = [[#sym.arg<0>, #sym.arg<1>, #sym.arg<2>], 1] {node = "cat"} : (tensor<1x64x16x16xf32>, tensor<1x32x16x16xf32>, tensor<1x64x16x16xf32>) -> tensor<1x160x16x16xf32>
  %3 = torch.call "aten.conv2d.default"(%2, %w, %bias) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, [1, 1], [0, 0], [1, 1], 1] {node = "conv"} : (tensor<1x160x16x16xf32>, tensor<48x160x1x1xf32>, tensor<48xf32>) -> tensor<1x48x16x16xf32>
  return %3 : tensor<1x48x16x16xf32>
}

// One image; and two that stay as they are, side by side.
// CHECK-LABEL: func.func @alone
// CHECK-NEXT: %[[Y:.*]] = torch.call "aten.conv2d.default"(%arg0, %arg1, %arg2) {{.*}} -> tensor<1x48x4x4xf32>
// CHECK-NEXT: %[[U:.*]] = torch.call "aten.upsample_bilinear2d.vec"(%[[Y]]) {{.*}} -> tensor<1x48x16x16xf32>
// CHECK-NEXT: return %[[U]]
func.func @alone(%a: tensor<1x64x4x4xf32>, %w: tensor<48x64x1x1xf32>, %bias: tensor<48xf32>) -> tensor<1x48x16x16xf32> {
  %0 = torch.call "aten.upsample_bilinear2d.vec"(%a) args = [#sym.arg<0>, [16, 16], false, unit] {node = "up"} : (tensor<1x64x4x4xf32>) -> tensor<1x64x16x16xf32>
  %1 = torch.call "aten.conv2d.default"(%0, %w, %bias) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, [1, 1], [0, 0], [1, 1], 1] {node = "conv"} : (tensor<1x64x16x16xf32>, tensor<48x64x1x1xf32>, tensor<48xf32>) -> tensor<1x48x16x16xf32>
  return %1 : tensor<1x48x16x16xf32>
}
// CHECK-LABEL: func.func @two_others
// CHECK: %[[W:.*]] = torch.call "aten.cat.default"({{.*}}) {{.*}} -> tensor<48x48x1x1xf32>
// CHECK: "aten.conv2d.default"(%{{.*}}, %[[W]])
// CHECK: "aten.conv2d.default"(%arg0, %{{.*}}) {{.*}} -> tensor<1x48x4x4xf32>
func.func @two_others(%a: tensor<1x64x4x4xf32>, %b: tensor<1x16x16x16xf32>, %c: tensor<1x32x16x16xf32>, %w: tensor<48x112x1x1xf32>) -> tensor<1x48x16x16xf32> {
  %0 = torch.call "aten.upsample_bilinear2d.vec"(%a) args = [#sym.arg<0>, [16, 16], false, unit] {node = "up"} : (tensor<1x64x4x4xf32>) -> tensor<1x64x16x16xf32>
  %1 = torch.call "aten.cat.default"(%b, %0, %c) args = [[#sym.arg<0>, #sym.arg<1>, #sym.arg<2>], 1] {node = "cat"} : (tensor<1x16x16x16xf32>, tensor<1x64x16x16xf32>, tensor<1x32x16x16xf32>) -> tensor<1x112x16x16xf32>
  %2 = torch.call "aten.conv2d.default"(%1, %w) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 1] {node = "conv"} : (tensor<1x112x16x16xf32>, tensor<48x112x1x1xf32>) -> tensor<1x48x16x16xf32>
  return %2 : tensor<1x48x16x16xf32>
}

// A window of several pixels, padding, which the bias alone would reach, strides, groups: the order matters.
// CHECK-LABEL: func.func @others
// CHECK-NOT: torch.call "aten.conv2d.default"(%arg
func.func @others(%a: tensor<1x64x4x4xf32>, %w: tensor<48x64x3x3xf32>, %v: tensor<48x64x1x1xf32>, %g: tensor<48x32x1x1xf32>) -> (tensor<1x48x14x14xf32>, tensor<1x48x18x18xf32>, tensor<1x48x8x8xf32>, tensor<1x48x16x16xf32>) {
  %0 = torch.call "aten.upsample_bilinear2d.vec"(%a) args = [#sym.arg<0>, [16, 16], false, unit] {node = "up_0"} : (tensor<1x64x4x4xf32>) -> tensor<1x64x16x16xf32>
  %1 = torch.call "aten.conv2d.default"(%0, %w) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 1] {node = "conv_0"} : (tensor<1x64x16x16xf32>, tensor<48x64x3x3xf32>) -> tensor<1x48x14x14xf32>
  %2 = torch.call "aten.upsample_bilinear2d.vec"(%a) args = [#sym.arg<0>, [16, 16], false, unit] {node = "up_1"} : (tensor<1x64x4x4xf32>) -> tensor<1x64x16x16xf32>
  %3 = torch.call "aten.conv2d.default"(%2, %v) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [1, 1], [1, 1], 1] {node = "conv_1"} : (tensor<1x64x16x16xf32>, tensor<48x64x1x1xf32>) -> tensor<1x48x18x18xf32>
  %4 = torch.call "aten.upsample_bilinear2d.vec"(%a) args = [#sym.arg<0>, [16, 16], false, unit] {node = "up_2"} : (tensor<1x64x4x4xf32>) -> tensor<1x64x16x16xf32>
  %5 = torch.call "aten.conv2d.default"(%4, %v) args = [#sym.arg<0>, #sym.arg<1>, unit, [2, 2], [0, 0], [1, 1], 1] {node = "conv_2"} : (tensor<1x64x16x16xf32>, tensor<48x64x1x1xf32>) -> tensor<1x48x8x8xf32>
  %6 = torch.call "aten.upsample_bilinear2d.vec"(%a) args = [#sym.arg<0>, [16, 16], false, unit] {node = "up_3"} : (tensor<1x64x4x4xf32>) -> tensor<1x64x16x16xf32>
  %7 = torch.call "aten.conv2d.default"(%6, %g) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 2] {node = "conv_3"} : (tensor<1x64x16x16xf32>, tensor<48x32x1x1xf32>) -> tensor<1x48x16x16xf32>
  return %1, %3, %5, %7 : tensor<1x48x14x14xf32>, tensor<1x48x18x18xf32>, tensor<1x48x8x8xf32>, tensor<1x48x16x16xf32>
}

// Somebody else has use for the large image; it is hardly larger; it has many more channels afterwards; bf16 would be rounded once more.
// CHECK-LABEL: func.func @not_worth_it
// CHECK-NOT: torch.call "aten.conv2d.default"(%arg
func.func @not_worth_it(%a: tensor<1x64x4x4xf32>, %b: tensor<1x64x15x15xf32>, %h: tensor<1x64x4x4xbf16>, %w: tensor<48x64x1x1xf32>, %many: tensor<160x64x1x1xf32>, %v: tensor<48x64x1x1xbf16>) -> (tensor<1x64x16x16xf32>, tensor<1x48x16x16xf32>, tensor<1x48x16x16xf32>, tensor<1x160x16x16xf32>, tensor<1x48x16x16xbf16>) {
  %0 = torch.call "aten.upsample_bilinear2d.vec"(%a) args = [#sym.arg<0>, [16, 16], false, unit] {node = "up_0"} : (tensor<1x64x4x4xf32>) -> tensor<1x64x16x16xf32>
  %1 = torch.call "aten.conv2d.default"(%0, %w) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 1] {node = "conv_0"} : (tensor<1x64x16x16xf32>, tensor<48x64x1x1xf32>) -> tensor<1x48x16x16xf32>
  %2 = torch.call "aten.upsample_bilinear2d.vec"(%b) args = [#sym.arg<0>, [16, 16], false, unit] {node = "up_1"} : (tensor<1x64x15x15xf32>) -> tensor<1x64x16x16xf32>
  %3 = torch.call "aten.conv2d.default"(%2, %w) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 1] {node = "conv_1"} : (tensor<1x64x16x16xf32>, tensor<48x64x1x1xf32>) -> tensor<1x48x16x16xf32>
  %4 = torch.call "aten.upsample_bilinear2d.vec"(%a) args = [#sym.arg<0>, [16, 16], false, unit] {node = "up_2"} : (tensor<1x64x4x4xf32>) -> tensor<1x64x16x16xf32>
  %5 = torch.call "aten.conv2d.default"(%4, %many) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 1] {node = "conv_2"} : (tensor<1x64x16x16xf32>, tensor<160x64x1x1xf32>) -> tensor<1x160x16x16xf32>
  %6 = torch.call "aten.upsample_bilinear2d.vec"(%h) args = [#sym.arg<0>, [16, 16], false, unit] {node = "up_3"} : (tensor<1x64x4x4xbf16>) -> tensor<1x64x16x16xbf16>
  %7 = torch.call "aten.conv2d.default"(%6, %v) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 1] {node = "conv_3"} : (tensor<1x64x16x16xbf16>, tensor<48x64x1x1xbf16>) -> tensor<1x48x16x16xbf16>
  return %0, %1, %3, %5, %7 : tensor<1x64x16x16xf32>, tensor<1x48x16x16xf32>, tensor<1x48x16x16xf32>, tensor<1x160x16x16xf32>, tensor<1x48x16x16xbf16>
}
