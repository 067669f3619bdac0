// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Blocks of 64 columns, of which a byte has n and n + 32; then one of 16, with pairs of neighbours.
// CHECK-LABEL: func.func @pack
// CHECK-SAME: %[[W:.*]]: tensor<80x4xi32>
// CHECK: %[[FIRST:.*]] = kernel.inside (d0, d1) -> (2*d0 + d1)
// CHECK: kernel.read %[[W]] (d0, d1) -> (2*(d0 mod 16) + d1 + 64*(d0 floordiv 64), (d0 floordiv 16) mod 4) if %[[FIRST]]
// CHECK: kernel.read %[[W]] (d0, d1) -> (2*(d0 mod 16) + d1 + 64*(d0 floordiv 64) + 32, (d0 floordiv 16) mod 4) if %[[FIRST]]
// CHECK: arith.ori
// CHECK: arith.select %[[FIRST]]
// CHECK: } : tensor<80x2xui8>
func.func @pack(%w: tensor<80x4xi32>) -> tensor<80x2xui8> {
  %0 = torch.call "aten._convert_weight_to_int4pack_for_cpu.default"(%w) args = [#sym.arg<0>, 2] {node = "p"} : (tensor<80x4xi32>) -> tensor<80x2xui8>
  return %0 : tensor<80x2xui8>
}

// -----

// Weights are brought into our own layout by a map of bytes, which is folded if they are constant,
// and are widened where they are multiplied.
// CHECK-LABEL: func.func @product
// CHECK: } : tensor<1024xui8>
// CHECK: %[[B:.*]] = kernel.map
// CHECK: } : tensor<16x64xui8>
// CHECK: kernel.contract batch [] m [2] n [64] k [32] lhs {
// CHECK: } rhs {
// CHECK: kernel.read %[[B]] (d0, d1, d2) -> (d2 floordiv 2, d1) : tensor<16x64xui8> -> i8
// CHECK: arith.shrsi
// CHECK: arith.sitofp
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: } epilogue {
// CHECK: arith.truncf {{.*}} : f32 to bf16
func.func @product(%x: tensor<2x32xbf16>, %w: tensor<64x16xui8>, %s: tensor<1x64x2xbf16>) -> tensor<2x64xbf16> {
  %0 = torch.call "aten._weight_int4pack_mm_for_cpu.default"(%x, %w, %s) args = [#sym.arg<0>, #sym.arg<1>, 32, #sym.arg<2>] {node = "mm"} : (tensor<2x32xbf16>, tensor<64x16xui8>, tensor<1x64x2xbf16>) -> tensor<2x64xbf16>
  return %0 : tensor<2x64xbf16>
}

// -----

// Packed by a CPU with AVX2: column n of a block of 32 is in byte n mod 16.
module attributes {torch.int4_layout = "avx2"} {
  // CHECK-LABEL: func.func @avx2
  // CHECK: kernel.read %{{.*}} (d0, d1) -> ({{.*}}d1 mod 16{{.*}})
  func.func @avx2(%x: tensor<2x32xf32>, %w: tensor<64x16xui8>, %s: tensor<1x64x2xf32>) -> tensor<2x64xf32> {
    %0 = torch.call "aten._weight_int4pack_mm_for_cpu.default"(%x, %w, %s) args = [#sym.arg<0>, #sym.arg<1>, 32, #sym.arg<2>] {node = "mm"} : (tensor<2x32xf32>, tensor<64x16xui8>, tensor<1x64x2xf32>) -> tensor<2x64xf32>
    return %0 : tensor<2x64xf32>
  }
}

// -----

// A scale for each row, then a product of integers in f32, which is exact for so short a sum.
// CHECK-LABEL: func.func @dynamic
// CHECK: %[[ROWS:.*]]:2 = kernel.map
// CHECK: kernel.reduce [64]
// CHECK: math.roundeven
// CHECK: kernel.contract batch [] m [3] n [16] k [64] lhs {
// CHECK: math.trunc
// CHECK: } rhs {
// CHECK: arith.subi
// CHECK: arith.sitofp {{.*}} : i32 to f32
// CHECK-NEXT: kernel.yield
// CHECK: } epilogue {
// CHECK: arith.divf
func.func @dynamic(%x: tensor<3x64xf32>, %w: tensor<528xf32>) -> tensor<3x16xf32> {
  %0 = torch.call "aten._dyn_quant_matmul_4bit.default"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>, 64, 64, 16] {node = "mm"} : (tensor<3x64xf32>, tensor<528xf32>) -> tensor<3x16xf32>
  return %0 : tensor<3x16xf32>
}

// -----

// A longer sum is one of integers.
// CHECK-LABEL: func.func @long
// CHECK: kernel.contract
// CHECK: arith.fptosi {{.*}} : f32 to i32
// CHECK: ^bb0(%{{.*}}: i32):
func.func @long(%x: tensor<3x8256xf32>, %w: tensor<66064xf32>) -> tensor<3x16xf32> {
  %0 = torch.call "aten._dyn_quant_matmul_4bit.default"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>, 8256, 8256, 16] {node = "mm"} : (tensor<3x8256xf32>, tensor<66064xf32>) -> tensor<3x16xf32>
  return %0 : tensor<3x16xf32>
}
