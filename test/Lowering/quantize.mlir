// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Rounded, moved, clamped, all in f32; the inverse of a number is taken in f64, as Python does.
// CHECK-LABEL: func.func @numbers
// CHECK-NOT: arith.divf
// CHECK: arith.constant 4.000000e+00 : f32
// CHECK: arith.mulf
// CHECK: math.roundeven
// CHECK: arith.addf
// CHECK: arith.maximumf
// CHECK: arith.minimumf
// CHECK: arith.fptosi
func.func @numbers(%x: tensor<4xf32>) -> tensor<4xi8> {
  %0 = torch.call "quantized_decomposed.quantize_per_tensor.default"(%x) args = [#sym.arg<0>, 0.25, 3, -128, 127, #sym.dtype<i8>] {node = "q"} : (tensor<4xf32>) -> tensor<4xi8>
  return %0 : tensor<4xi8>
}

// -----

// Zero points go away in integers.
// CHECK-LABEL: func.func @channels
// CHECK-SAME: %[[X:.*]]: tensor<2x3xi8>, %[[S:.*]]: tensor<3xf32>, %[[Z:.*]]: tensor<3xi64>
// CHECK: kernel.read %[[S]] (d0, d1) -> (d1)
// CHECK: kernel.read %[[Z]] (d0, d1) -> (d1)
// CHECK: kernel.read %[[X]] (d0, d1) -> (d0, d1)
// CHECK: kernel.read %{{.*}} (d0, d1) -> (0, d1) : tensor<1x3xi64> -> i64
// CHECK: arith.subi
// CHECK: kernel.read %{{.*}} (d0, d1) -> (0, d1) : tensor<1x3xf32> -> f32
// CHECK: arith.sitofp
// CHECK: arith.mulf
func.func @channels(%x: tensor<2x3xi8>, %s: tensor<3xf32>, %z: tensor<3xi64>) -> tensor<2x3xf32> {
  %0 = torch.call "quantized_decomposed.dequantize_per_channel.default"(%x, %s, %z) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, 1, -128, 127, #sym.dtype<i8>, unit] {node = "d"} : (tensor<2x3xi8>, tensor<3xf32>, tensor<3xi64>) -> tensor<2x3xf32>
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
  %0 = torch.call "aten._weight_int8pack_mm.default"(%x, %w, %s) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>] {node = "mm"} : (tensor<2x4xf32>, tensor<3x4xi8>, tensor<3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// Weights stay 8-bit floats up to where they are multiplied; both scales are the epilogue's.
// CHECK-LABEL: func.func @scaled
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf8E4M3FN>, %[[W:.*]]: tensor<4x3xf8E4M3FN>, %[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<1x3xf32>
// CHECK: kernel.contract batch [] m [2] n [3] k [4] lhs {
// CHECK: kernel.read %[[X]]
// CHECK: } rhs {
// CHECK: kernel.read %[[W]]
// CHECK: } epilogue {
// CHECK: kernel.read %[[A]] (d0, d1, d2) -> () : tensor<f32>
// CHECK: kernel.read %[[B]] (d0, d1, d2) -> (0, d1) : tensor<1x3xf32>
// CHECK: arith.truncf {{.*}} : f32 to bf16
func.func @scaled(%x: tensor<2x4xf8E4M3FN>, %w: tensor<4x3xf8E4M3FN>, %a: tensor<f32>, %b: tensor<1x3xf32>) -> tensor<2x3xbf16> {
  %0 = torch.call "aten._scaled_mm.default"(%x, %w, %a, %b) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, #sym.arg<3>, unit, unit, #sym.dtype<bf16>, false] {node = "mm"} : (tensor<2x4xf8E4M3FN>, tensor<4x3xf8E4M3FN>, tensor<f32>, tensor<1x3xf32>) -> tensor<2x3xbf16>
  return %0 : tensor<2x3xbf16>
}

// -----

// A group of four has a scale and a zero point.
// CHECK-LABEL: func.func @groups
// CHECK-SAME: %[[X:.*]]: tensor<2x8xi8>, %[[S:.*]]: tensor<2x2xf32>
// CHECK: kernel.read %[[X]] (d0, d1) -> (d0, d1)
// CHECK: kernel.read %[[S]] (d0, d1) -> (d0, d1 floordiv 4)
// CHECK: arith.mulf
func.func @groups(%x: tensor<2x8xi8>, %s: tensor<2x2xf32>) -> tensor<2x8xf32> {
  %0 = torch.call "torchao.dequantize_affine.default"(%x, %s) args = [#sym.arg<0>, [1, 4], #sym.arg<1>, unit, #sym.dtype<i8>, -8, 7, #sym.dtype<f32>] {node = "d"} : (tensor<2x8xi8>, tensor<2x2xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

// Eager mode has scales of f32, whatever the program declares, and quantizes with those.
// CHECK-LABEL: func.func @tokens
// CHECK: %[[S:.*]] = kernel.map
// CHECK: kernel.map
// CHECK: kernel.read %[[S]] (d0, d1) -> (d0, 0) : tensor<2x1xf32>
func.func @tokens(%x: tensor<2x8xf32>) -> tensor<2x8xi8> {
  %0:2 = torch.call "quantized_decomposed.choose_qparams_per_token.default"(%x) args = [#sym.arg<0>, #sym.dtype<i8>] {node = "c"} : (tensor<2x8xf32>) -> (tensor<2x1xf64>, tensor<2x1xi64>)
  %1 = torch.call "quantized_decomposed.quantize_per_token.default"(%x, %0#0, %0#1) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, -128, 127, #sym.dtype<i8>] {node = "q"} : (tensor<2x8xf32>, tensor<2x1xf64>, tensor<2x1xi64>) -> tensor<2x8xi8>
  return %1 : tensor<2x8xi8>
}
