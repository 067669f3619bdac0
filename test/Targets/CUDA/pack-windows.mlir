// RUN: kiln-opt %s --cuda-pack-windows --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --cuda-pack-windows --run-reference --split-input-file -o /dev/null

// Three channels of an image become eight, the last five of which are zero.
// CHECK-LABEL: func.func @stem
// CHECK: %[[W:.*]] = kernel.constant "w"
// CHECK: %[[IMAGE:.*]] = kernel.map {
// CHECK: %[[IS_CHANNEL:.*]] = kernel.inside (d0, d1, d2) -> (d2) bounds [3]
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d2, d0, d1) if %[[IS_CHANNEL]] else(%{{.*}} : bf16)
// CHECK: } : tensor<?x20x8xbf16, #sym.shape<[s0, 20, 8]>>
// CHECK: %[[WEIGHT:.*]] = kernel.map {
// CHECK: kernel.inside (d0, d1, d2, d3) -> (d3) bounds [3]
// CHECK: kernel.read %[[W]] (d0, d1, d2, d3) -> (d0, d3, d1, d2) if
// CHECK: } : tensor<16x5x5x8xbf16>
// CHECK: kernel.contract batch [] m [s0, 20] n [16] k [5, 5, 8] lhs {
// CHECK: kernel.inside (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 2, d1 + d4 - 2) bounds [s0, 20]
// CHECK: kernel.read %[[IMAGE]] (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 2, d1 + d4 - 2, d5) if
// CHECK: kernel.read %[[WEIGHT]] (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5)
func.func @stem(%x: tensor<3x?x20xbf16, #sym.shape<[3, s0, 20]>>) -> tensor<?x20x16xbf16, #sym.shape<[s0, 20, 16]>> {
  %w = kernel.constant "w" dense<1.0> : tensor<16x3x5x5xbf16> : tensor<16x3x5x5xbf16>
  %y = kernel.contract batch [] m [s0, 20] n [16] k [5, 5, 3] lhs {
    %zero = arith.constant 0.0 : bf16
    %i = kernel.inside (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 2, d1 + d4 - 2) bounds [s0, 20]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d5, d0 + d3 - 2, d1 + d4 - 2) if %i else(%zero : bf16) : tensor<3x?x20xbf16, #sym.shape<[3, s0, 20]>> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d5, d3, d4) : tensor<16x3x5x5xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %t = arith.truncf %sum : f32 to bf16
    kernel.yield %t : bf16
  } : tensor<?x20x16xbf16, #sym.shape<[s0, 20, 16]>>
  return %y : tensor<?x20x16xbf16, #sym.shape<[s0, 20, 16]>>
}

// -----

// Columns of a patch lie side by side: they become the last steps, and nothing is copied. Rows that do need nothing.
// CHECK-LABEL: func.func @patches
// CHECK-NOT: kernel.map
// CHECK: kernel.contract batch [] m [4, 5] n [16] k [8, 3, 8] lhs {
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5) -> (d4, 8*d0 + d3, 8*d1 + d5)
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3, d4, d5) -> (d2, d4, d3, d5)
// CHECK: kernel.contract batch [] m [32, 40] n [16] k [2, 3] lhs {
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4) -> (d4, d0, d1)
func.func @patches(%x: tensor<3x32x40xf16>, %v: tensor<16x2x3xf16>) -> (tensor<4x5x16xf16>, tensor<32x40x16xf16>) {
  %w = kernel.constant "w" dense<1.0> : tensor<16x3x8x8xf16> : tensor<16x3x8x8xf16>
  %y = kernel.contract batch [] m [4, 5] n [16] k [8, 8, 3] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d5, 8*d0 + d3, 8*d1 + d4) : tensor<3x32x40xf16> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d5, d3, d4) : tensor<16x3x8x8xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %t = arith.truncf %sum : f32 to f16
    kernel.yield %t : f16
  } : tensor<4x5x16xf16>
  %z = kernel.contract batch [] m [32, 40] n [16] k [2, 3] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d4, d0, d1) : tensor<3x32x40xf16> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %v (d0, d1, d2, d3, d4) -> (d2, d3, d4) : tensor<16x2x3xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %t = arith.truncf %sum : f32 to f16
    kernel.yield %t : f16
  } : tensor<32x40x16xf16>
  return %y, %z : tensor<4x5x16xf16>, tensor<32x40x16xf16>
}

// -----

// What is done to the image on the way is not done to zeros, and of a product of few columns a copy is no small part.
// CHECK-LABEL: func.func @left_alone
// CHECK-NOT: kernel.map
// CHECK: k [3, 3, 3]
// CHECK: k [3, 3, 3]
func.func @left_alone(%x: tensor<3x10x10xf16>, %w: tensor<16x3x3x3xf16>, %v: tensor<4x3x3x3xf16>) -> (tensor<8x8x16xf16>, tensor<8x8x4xf16>) {
  %y = kernel.contract batch [] m [8, 8] n [16] k [3, 3, 3] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d5, d0 + d3, d1 + d4) : tensor<3x10x10xf16> -> f16
    %b = math.exp %a : f16
    kernel.yield %b : f16
  } rhs {
    %a = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d5, d3, d4) : tensor<16x3x3x3xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %t = arith.truncf %sum : f32 to f16
    kernel.yield %t : f16
  } : tensor<8x8x16xf16>
  %z = kernel.contract batch [] m [8, 8] n [4] k [3, 3, 3] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d5, d0 + d3, d1 + d4) : tensor<3x10x10xf16> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %v (d0, d1, d2, d3, d4, d5) -> (d2, d5, d3, d4) : tensor<4x3x3x3xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %t = arith.truncf %sum : f32 to f16
    kernel.yield %t : f16
  } : tensor<8x8x4xf16>
  return %y, %z : tensor<8x8x16xf16>, tensor<8x8x4xf16>
}
