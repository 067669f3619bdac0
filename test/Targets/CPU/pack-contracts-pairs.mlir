// RUN: kiln-opt %s --cpu-set-target=cpu=znver4 --cpu-pack-contracts --split-input-file | FileCheck %s
// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v3 --cpu-pack-contracts --split-input-file | FileCheck %s --check-prefix=WIDE
// RUN: kiln-opt %s --run-reference --cpu-set-target=cpu=znver4 --cpu-pack-contracts --run-reference --split-input-file -o /dev/null

// Two steps of the sum are a word where pairs are multiplied.
// CHECK-LABEL: func.func @linear
// CHECK: %[[WORDS:.*]] = kernel.map {
// CHECK-DAG: kernel.read %{{.*}} (d0, d1, d2) -> (80*d0 + d2, 2*d1) :
// CHECK-DAG: kernel.read %{{.*}} (d0, d1, d2) -> (80*d0 + d2, 2*d1 + 1) :
// CHECK: } : tensor<2x24x80xi32>
// CHECK: kernel.contract batch [] m [5] n [160] k [24, 2] panel 80 lhs {
// CHECK-NEXT: kernel.read %arg0 (d0, d1, d2, d3) -> (d0, 2*d2 + d3) : tensor<5x48xbf16> -> bf16
// CHECK: rhs {
// CHECK-NEXT: kernel.read %[[WORDS]] (d0, d1, d2, d3) -> (d1 floordiv 80, d2, d1 mod 80)
// CHECK: arith.bitcast %{{.*}} : i16 to bf16
// CHECK-NEXT: kernel.yield %{{.*}} : bf16
// WIDE-LABEL: func.func @linear
// WIDE: kernel.contract batch [] m [5] n [160] k [48] panel
func.func @linear(%x: tensor<5x48xbf16>) -> tensor<5x160xbf16> {
  %w = kernel.constant "w" dense<1.5> : tensor<160x48xbf16> : tensor<160x48xbf16>
  %r = kernel.contract batch [] m [5] n [160] k [48] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x48xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<160x48xbf16> -> bf16
    kernel.yield %0 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<5x160xbf16>
  return %r : tensor<5x160xbf16>
}

// -----

// The rows of a table are gathered, too: it has panels of its own elements.
// CHECK-LABEL: func.func @tied
// CHECK: k [48] panel
// CHECK: } : tensor<5x64xbf16>
func.func @tied(%x: tensor<5x48xbf16>, %at: tensor<5xi64>) -> (tensor<5x64xbf16>, tensor<5x48xbf16>) {
  %w = kernel.constant "w" dense<1.5> : tensor<64x48xbf16> : tensor<64x48xbf16>
  %g = kernel.map {
    %0 = kernel.read %at (d0, d1) -> (d0) : tensor<5xi64> -> i64
    %1 = kernel.read %w (d0, d1, d2) -> (d2, d1) values(%0) : tensor<64x48xbf16> -> bf16
    kernel.yield %1 : bf16
  } : tensor<5x48xbf16>
  %r = kernel.contract batch [] m [5] n [64] k [48] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x48xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x48xbf16> -> bf16
    kernel.yield %0 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<5x64xbf16>
  return %r, %g : tensor<5x64xbf16>, tensor<5x48xbf16>
}

// -----

// Four bits, of which a pair's two are in the halves of a word; what is multiplied is rounded to bf16. A scale is checked with
// the zero points, so that the words depend on the weights alone.
// CHECK-LABEL: func.func @few_bits
// CHECK: %[[BITS:.*]] = kernel.map {
// CHECK-NOT: zero points
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d2, 8*d1 + 1)
// CHECK: arith.constant 16 : i32
// CHECK: } : tensor<1x8x32xi32>
// CHECK: %[[SCALES:.*]] = kernel.map {
// CHECK: kernel.expect %{{.*}} if %{{.*}}, "weights with zero points other than 0" : f32
// CHECK: } : tensor<1x2x32xbf16>
// CHECK: kernel.contract batch [] m [40] n [32] k [2, 4, 8] panel 32 lhs {
// CHECK-NEXT: kernel.read %arg0 {{.*}} : tensor<40x64xbf16> -> bf16
// CHECK: rhs {
// CHECK-NEXT: kernel.read %[[BITS]]
// CHECK: kernel.index (d0, d1, d2, d3, d4) -> (28*(d4 floordiv 2) - 16*d4 + 28)
// CHECK: %[[SCALE:.*]] = kernel.read %[[SCALES]] {{.*}} -> bf16
// CHECK-NEXT: arith.extf %[[SCALE]]
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: %[[ROUNDED:.*]] = arith.truncf
// CHECK-NEXT: kernel.yield %[[ROUNDED]] : bf16
// WIDE-LABEL: func.func @few_bits
// WIDE: kernel.index (d0, d1, d2, d3, d4) -> (28 - 4*d4)
// WIDE-NOT: arith.truncf {{.*}}
// WIDE: epilogue
func.func @few_bits(%x: tensor<40x64xbf16>) -> tensor<40x32xbf16> {
  %w = kernel.constant "w" dense<-7> : tensor<32x64xi8> : tensor<32x64xi8>
  %s = kernel.constant "s" dense<0.5> : tensor<32x2xbf16> : tensor<32x2xbf16>
  %z = kernel.constant "z" dense<0> : tensor<32x2xi8> : tensor<32x2xi8>
  %r = kernel.contract batch [] m [40] n [32] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<40x64xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<32x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to bf16
    %2 = arith.extf %1 : bf16 to f32
    %3 = kernel.read %z (d0, d1, d2) -> (d1, d2 floordiv 32) : tensor<32x2xi8> -> i8
    %4 = arith.sitofp %3 : i8 to f32
    %5 = arith.subf %2, %4 : f32
    %6 = kernel.read %s (d0, d1, d2) -> (d1, d2 floordiv 32) : tensor<32x2xbf16> -> bf16
    %7 = arith.extf %6 : bf16 to f32
    %8 = arith.mulf %5, %7 : f32
    %9 = arith.truncf %8 : f32 to bf16
    kernel.yield %9 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<40x32xbf16>
  return %r : tensor<40x32xbf16>
}

// -----

// Few rows multiply bytes in f32.
// CHECK-LABEL: func.func @few_rows
// CHECK: kernel.contract batch [] m [5] n [32] k [64] panel 32 lhs {
// CHECK-NEXT: kernel.read {{.*}} : tensor<5x64xf32> -> f32
// CHECK: rhs {
// CHECK: kernel.yield %{{.*}} : f32
func.func @few_rows(%x: tensor<5x64xbf16>) -> tensor<5x32xbf16> {
  %w = kernel.constant "w" dense<-70> : tensor<32x64xi8> : tensor<32x64xi8>
  %r = kernel.contract batch [] m [5] n [32] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x64xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<32x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to bf16
    kernel.yield %1 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<5x32xbf16>
  return %r : tensor<5x32xbf16>
}

// -----

// Without instructions for pairs, many rows become f32 before, not one by one for each tile; weights stay bf16 in their panels.
// CHECK-LABEL: func.func @many_rows
// CHECK: kernel.contract batch [] m [40] n [32] k [32, 2] panel 32 lhs {
// WIDE-LABEL: func.func @many_rows
// WIDE: %[[X:.*]] = kernel.map {
// WIDE: arith.extf %{{.*}} : bf16 to f32
// WIDE: } : tensor<40x64xf32>
// WIDE: kernel.contract batch [] m [40] n [32] k [64] panel {{[0-9]+}} lhs {
// WIDE-NEXT: kernel.read %[[X]] (d0, d1, d2) -> (d0, d2) : tensor<40x64xf32> -> f32
// WIDE: rhs {
// WIDE-NEXT: %[[W:.*]] = kernel.read {{.*}} -> bf16
// WIDE-NEXT: %[[WIDE:.*]] = arith.extf %[[W]] : bf16 to f32
// WIDE-NEXT: kernel.yield %[[WIDE]] : f32
func.func @many_rows(%x: tensor<40x64xbf16>) -> tensor<40x32xbf16> {
  %w = kernel.constant "w" dense<1.5> : tensor<32x64xbf16> : tensor<32x64xbf16>
  %r = kernel.contract batch [] m [40] n [32] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<40x64xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<32x64xbf16> -> bf16
    kernel.yield %0 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<40x32xbf16>
  return %r : tensor<40x32xbf16>
}

// -----

// Channels of windows are in pairs, behind the places of the window as they are in the image.
// CHECK-LABEL: func.func @window
// CHECK: %[[WORDS:.*]] = kernel.map {
// CHECK: } : tensor<{{[0-9]+}}x72x[[PANEL:[0-9]+]]xi32>
// CHECK: kernel.contract batch [] m [6, 5] n [64] k [3, 3, 8, 2] panel [[PANEL]] lhs {
// CHECK-NEXT: kernel.read %arg0 (d0, d1, d2, d3, d4, d5, d6) -> (d0 + d3, d1 + d4, 2*d5 + d6) :
// CHECK: rhs {
// CHECK-NEXT: kernel.read %[[WORDS]] (d0, d1, d2, d3, d4, d5, d6) -> (d2 floordiv [[PANEL]], 24*d3 + 8*d4 + d5, d2 mod [[PANEL]])
// CHECK: kernel.index (d0, d1, d2, d3, d4, d5, d6) -> (16*d6)
// WIDE-LABEL: func.func @window
// WIDE: kernel.contract batch [] m [6, 5] n [64] k [3, 3, 16] panel
func.func @window(%x: tensor<8x7x16xbf16>) -> tensor<6x5x64xbf16> {
  %w = kernel.constant "w" dense<1.5> : tensor<64x16x3x3xbf16> : tensor<64x16x3x3xbf16>
  %r = kernel.contract batch [] m [6, 5] n [64] k [16, 3, 3] lhs {
    %0 = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d4, d1 + d5, d3) : tensor<8x7x16xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<64x16x3x3xbf16> -> bf16
    kernel.yield %0 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<6x5x64xbf16>
  return %r : tensor<6x5x64xbf16>
}

// -----

// An odd number of channels leaves one without another.
// CHECK-LABEL: func.func @odd_window
// CHECK: kernel.contract batch [] m [6, 5] n [64] k [3, 3, 17] panel
func.func @odd_window(%x: tensor<8x7x17xbf16>) -> tensor<6x5x64xbf16> {
  %w = kernel.constant "w" dense<1.5> : tensor<64x17x3x3xbf16> : tensor<64x17x3x3xbf16>
  %r = kernel.contract batch [] m [6, 5] n [64] k [17, 3, 3] lhs {
    %0 = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d4, d1 + d5, d3) : tensor<8x7x17xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<64x17x3x3xbf16> -> bf16
    kernel.yield %0 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<6x5x64xbf16>
  return %r : tensor<6x5x64xbf16>
}

// -----

// An image that a map makes for windows has elements of f32 where these are not multiplied in pairs; weights stay as small as they are.
// CHECK-LABEL: func.func @image
// CHECK: } : tensor<8x7x17xf32>
// WIDE-LABEL: func.func @image
// WIDE: %[[IMAGE:.*]] = kernel.map
// WIDE: arith.extf
// WIDE: } : tensor<8x7x17xf32>
// WIDE: } : tensor<{{.*}}xbf16>
// WIDE: kernel.read %[[IMAGE]] {{.*}} : tensor<8x7x17xf32> -> f32
// WIDE: rhs {
// WIDE: kernel.read %{{.*}} -> bf16
// WIDE-NEXT: arith.extf
func.func @image(%x: tensor<6x5x17xbf16>) -> tensor<6x5x64xbf16> {
  %w = kernel.constant "w" dense<1.5> : tensor<64x17x3x3xbf16> : tensor<64x17x3x3xbf16>
  %p = kernel.map {
    %c = arith.constant 0.0 : bf16
    %i = kernel.inside (d0, d1, d2) -> (d0 - 1, d1 - 1) bounds [6, 5]
    %0 = kernel.read %x (d0, d1, d2) -> (d0 - 1, d1 - 1, d2) if %i else(%c : bf16) : tensor<6x5x17xbf16> -> bf16
    kernel.yield %0 : bf16
  } : tensor<8x7x17xbf16>
  %r = kernel.contract batch [] m [6, 5] n [64] k [17, 3, 3] lhs {
    %0 = kernel.read %p (d0, d1, d2, d3, d4, d5) -> (d0 + d4, d1 + d5, d3) : tensor<8x7x17xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<64x17x3x3xbf16> -> bf16
    kernel.yield %0 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<6x5x64xbf16>
  return %r : tensor<6x5x64xbf16>
}
