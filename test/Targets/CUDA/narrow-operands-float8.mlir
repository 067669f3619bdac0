// RUN: kiln-opt %s --pass-pipeline='builtin.module(torch-lower-to-kernel,func.func(kernel-fold-views),cuda-narrow-operands,canonicalize)' | FileCheck %s

// Of all 256 bits each is the number in f16 that it is in f32. The exponent of e4m3 is that of f16, less 8.
// CHECK-LABEL: func.func @products
// CHECK: kernel.contract
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f16
// CHECK: arith.cmpi eq
// CHECK: kernel.yield %{{.*}} : f16
// CHECK: rhs
// CHECK: arith.extui %{{.*}} : i8 to i16
// CHECK-NOT: arith.mulf
// CHECK: kernel.yield %{{.*}} : f16
// CHECK: ^bb0(%{{.*}}: f32):
func.func @products(%x: tensor<16x32xf8E4M3FN>, %w: tensor<32x48xf8E5M2>, %s: tensor<f32>) -> tensor<16x48xf32> {
  %y = torch.call "aten._scaled_mm.default"(%x, %w, %s, %s) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, #sym.arg<3>, unit, unit, #sym.dtype<f32>, false] {node = "y"} : (tensor<16x32xf8E4M3FN>, tensor<32x48xf8E5M2>, tensor<f32>, tensor<f32>) -> tensor<16x48xf32>
  return %y : tensor<16x48xf32>
}

// Rows are few: their products wait for memory.
// CHECK-LABEL: func.func @few_rows
// CHECK-NOT: f16
func.func @few_rows(%x: tensor<2x32xf8E4M3FN>, %w: tensor<48x32xf8E4M3FN>, %s: tensor<f32>) -> tensor<2x48xf32> {
  %t = torch.call "aten.t.default"(%w) args = [#sym.arg<0>] {node = "t"} : (tensor<48x32xf8E4M3FN>) -> tensor<32x48xf8E4M3FN>
  %y = torch.call "aten._scaled_mm.default"(%x, %t, %s, %s) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, #sym.arg<3>, unit, unit, #sym.dtype<f32>, false] {node = "y"} : (tensor<2x32xf8E4M3FN>, tensor<32x48xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<2x48xf32>
  return %y : tensor<2x48xf32>
}
