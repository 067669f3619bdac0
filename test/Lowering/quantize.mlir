// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Rounded, moved, clamped, all in f32; the inverse of a number is taken in f64, as Python does.
// CHECK-LABEL: func.func @numbers
// CHECK: arith.divf {{.*}} : f64
// CHECK: arith.mulf
// CHECK: math.roundeven
// CHECK: arith.addf
// CHECK: arith.maximumf
// CHECK: arith.minimumf
// CHECK: arith.fptosi
func.func @numbers(%x: tensor<4xf32>) -> tensor<4xi8> {
  %0 = torch.call "quantized_decomposed.quantize_per_tensor.default"(%x) args = [#torch.arg<0>, 0.25, 3, -128, 127, #torch.dtype<i8>] {node = "q"} : (tensor<4xf32>) -> tensor<4xi8>
  return %0 : tensor<4xi8>
}

// -----

// Zero points go away in integers.
// CHECK-LABEL: func.func @channels
// CHECK-SAME: %[[X:.*]]: tensor<2x3xi8>, %[[S:.*]]: tensor<3xf32>, %[[Z:.*]]: tensor<3xi64>
// CHECK: kernel.read %[[X]] (d0, d1) -> (d0, d1)
// CHECK: kernel.read %[[Z]] (d0, d1) -> (d1)
// CHECK: arith.subi
// CHECK: arith.sitofp
// CHECK: kernel.read %[[S]] (d0, d1) -> (d1)
// CHECK: arith.mulf
func.func @channels(%x: tensor<2x3xi8>, %s: tensor<3xf32>, %z: tensor<3xi64>) -> tensor<2x3xf32> {
  %0 = torch.call "quantized_decomposed.dequantize_per_channel.default"(%x, %s, %z) args = [#torch.arg<0>, #torch.arg<1>, #torch.arg<2>, 1, -128, 127, #torch.dtype<i8>] {node = "d"} : (tensor<2x3xi8>, tensor<3xf32>, tensor<3xi64>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// The weights stay integers up to where they are multiplied.
// CHECK-LABEL: func.func @product
// CHECK: kernel.contract batch [] m [2] n [3] k [4] lhs {
// CHECK: } rhs {
// CHECK: kernel.read %{{.*}} : tensor<3x4xi8> -> i8
// CHECK: arith.sitofp
// CHECK: } epilogue {
// CHECK: arith.mulf
func.func @product(%x: tensor<2x4xf32>, %w: tensor<3x4xi8>, %s: tensor<3xf32>) -> tensor<2x3xf32> {
  %0 = torch.call "aten._weight_int8pack_mm.default"(%x, %w, %s) args = [#torch.arg<0>, #torch.arg<1>, #torch.arg<2>] {node = "mm"} : (tensor<2x4xf32>, tensor<3x4xi8>, tensor<3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
