// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-winograd --split-input-file | FileCheck %s
// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-winograd=tile=2 --split-input-file | FileCheck %s --check-prefix=TWO
// RUN: kiln-opt %s --run-reference --cpu-set-target=cpu=x86-64-v4 --cpu-winograd --run-reference --split-input-file -o /dev/null
// RUN: kiln-opt %s --run-reference --cpu-set-target=cpu=x86-64-v3 --cpu-winograd=tile=2 --run-reference --split-input-file -o /dev/null

// Weights are transformed in f64, columns past the last are zero; padding is where it was, at places of the image.
// CHECK-LABEL: func.func @padded
// CHECK: %[[W:.*]] = kernel.constant "w"
// CHECK: %[[G:.*]] = kernel.constant dense<{{.*}}> : tensor<6x3xf64>
// CHECK: %[[U:.*]] = kernel.map attributes {cpu.folded} {
// CHECK: kernel.inside (d0, d1, d2) -> (32*d0 + d2) bounds [56]
// CHECK: kernel.read %[[G]] (d0, d1, d2) -> ((d1 floordiv 16) mod 6, 0) : tensor<6x3xf64>
// CHECK: arith.truncf
// CHECK: tensor<2x576x32xf32>
// CHECK: kernel.winograd tile 4 panel 32 batch [2] pixels [13, 10] n 56 c 16 lhs {
// CHECK: kernel.inside (d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d4 - 1, d5 - 1) bounds [13, 10]
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d4 - 1, d5 - 1, d6) if
// CHECK: } rhs {
// CHECK-NEXT: kernel.read %[[U]] (d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d3 floordiv 32, d6 + 96*d7 + 16*d8, d3 mod 32)
// CHECK: } epilogue {
// CHECK: kernel.read %arg1 (d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d3)
// TWO-LABEL: func.func @padded
// TWO: kernel.constant dense<{{.*}}> : tensor<4x3xf64>
// TWO: kernel.winograd tile 2 panel 32 batch [2] pixels [13, 10] n 56 c 16
func.func @padded(%x: tensor<2x13x10x16xf32>, %bias: tensor<56xf32>) -> tensor<2x13x10x56xf32> {
  %w = kernel.constant "w" dense<0.5> : tensor<56x16x3x3xf32> : tensor<56x16x3x3xf32>
  %y = kernel.contract batch [] m [2, 13, 10] n [56] k [16, 3, 3] lhs {
    %z = arith.constant 0.0 : f32
    %in = kernel.inside (d0, d1, d2, d3, d4, d5, d6) -> (d1 + d5 - 1, d2 + d6 - 1) bounds [13, 10]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d5 - 1, d2 + d6 - 1, d4) if %in else(%z : f32) : tensor<2x13x10x16xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5, d6) -> (d3, d4, d5, d6) : tensor<56x16x3x3xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    %c = kernel.read %bias (d0, d1, d2, d3, d4, d5, d6) -> (d3) : tensor<56xf32> -> f32
    %t = arith.addf %s, %c : f32
    kernel.yield %t : f32
  } : tensor<2x13x10x56xf32>
  return %y : tensor<2x13x10x56xf32>
}

// -----

// An image of unknown size; no padding, which is no other place of the image.
// CHECK-LABEL: func.func @open
// CHECK: kernel.winograd tile 4 panel 16 batch [] pixels [s0 - 2, s1 - 2] n 16 c 32 lhs {
// CHECK-NEXT: kernel.read %arg0 (d0, d1, d2, d3, d4, d5, d6, d7) -> (d3, d4, d5)
func.func @open(%x: tensor<?x?x32xf32, #sym.shape<[s0, s1, 32]>>) -> tensor<?x?x16xf32, #sym.shape<[s0 - 2, s1 - 2, 16]>>
    attributes {sym.symbols = {s0 = {min = 5, max = 9}, s1 = {min = 5, max = 9}}} {
  %w = kernel.constant dense<0.5> : tensor<16x3x3x32xf32> : tensor<16x3x3x32xf32>
  %y = kernel.contract batch [] m [s0 - 2, s1 - 2] n [16] k [3, 3, 32] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3, d1 + d4, d5) : tensor<?x?x32xf32, #sym.shape<[s0, s1, 32]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<16x3x3x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<?x?x16xf32, #sym.shape<[s0 - 2, s1 - 2, 16]>>
  return %y : tensor<?x?x16xf32, #sym.shape<[s0 - 2, s1 - 2, 16]>>
}
