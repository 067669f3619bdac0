// RUN: kiln-opt %s | kiln-opt | FileCheck %s

// CHECK: kernel.winograd tile 2 panel 16 batch [s0] pixels [6, s1] n 4 c 4 lhs {
func.func @winograd(%x: tensor<?x8x?x4xf32, #sym.shape<[s0, 8, s1 + 2, 4]>>, %u: tensor<1x64x16xf32>) -> tensor<?x6x?x4xf32, #sym.shape<[s0, 6, s1, 4]>>
    attributes {sym.symbols = {s0 = {min = 0}, s1 = {min = 1}}} {
  %y = kernel.winograd tile 2 panel 16 batch [s0] pixels [6, s1] n 4 c 4 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d4, d5, d6) : tensor<?x8x?x4xf32, #sym.shape<[s0, 8, s1 + 2, 4]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %u (d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (0, 16*d7 + 4*d8 + d6, d3) : tensor<1x64x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<?x6x?x4xf32, #sym.shape<[s0, 6, s1, 4]>>
  return %y : tensor<?x6x?x4xf32, #sym.shape<[s0, 6, s1, 4]>>
}
