// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v3 --cpu-pack-contracts --split-input-file | FileCheck %s
// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-pack-contracts --split-input-file | FileCheck %s --check-prefix=AVX512

// With 16 registers, tiles of 4 rows and three vectors read less for each FMA than those of 6 rows and two.
// CHECK-LABEL: func.func @wide
// AVX512-LABEL: func.func @wide
func.func @wide(%x: tensor<128x96xf32>) -> tensor<128x240xf32> {
  %w = kernel.constant dense<1.0> : tensor<240x96xf32> : tensor<240x96xf32>
  // CHECK: m [128] n [240] k [96] panel 24
  // AVX512: m [128] n [240] k [96] panel 32
  %r = kernel.contract batch [] m [128] n [240] k [96] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x96xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<240x96xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<128x240xf32>
  return %r : tensor<128x240xf32>
}

// -----

// Two panels of 24 columns would be a quarter empty.
// CHECK-LABEL: func.func @empty_columns
func.func @empty_columns(%x: tensor<128x96xf32>) -> tensor<128x32xf32> {
  %w = kernel.constant dense<1.0> : tensor<32x96xf32> : tensor<32x96xf32>
  // CHECK: n [32] k [96] panel 16
  %r = kernel.contract batch [] m [128] n [32] k [96] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x96xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<32x96xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<128x32xf32>
  return %r : tensor<128x32xf32>
}

// -----

// A tile's results are stored soon after its start.
// CHECK-LABEL: func.func @short_sum
func.func @short_sum(%x: tensor<128x64xf32>) -> tensor<128x240xf32> {
  %w = kernel.constant dense<1.0> : tensor<240x64xf32> : tensor<240x64xf32>
  // CHECK: k [64] panel 16
  %r = kernel.contract batch [] m [128] n [240] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<240x64xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<128x240xf32>
  return %r : tensor<128x240xf32>
}

// -----

// Halves that are widened as they are read are not multiplied by FMAs alone.
// CHECK-LABEL: func.func @halves
func.func @halves(%x: tensor<128x96xf32>) -> tensor<128x240xf32> {
  %w = kernel.constant dense<1.0> : tensor<240x96xf16> : tensor<240x96xf16>
  // CHECK: k [96] panel 16
  %r = kernel.contract batch [] m [128] n [240] k [96] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x96xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<240x96xf16> -> f16
    %c = arith.extf %b : f16 to f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<128x240xf32>
  return %r : tensor<128x240xf32>
}

// -----

// Tiles of windows are cut from rows of 7 pixels: 4 and 3. Three rows and two vectors would wait for their FMAs.
// CHECK-LABEL: func.func @rows_of_seven
func.func @rows_of_seven(%x: tensor<9x9x32xf32>) -> tensor<7x7x48xf32> {
  %w = kernel.constant dense<1.0> : tensor<48x3x3x32xf32> : tensor<48x3x3x32xf32>
  // CHECK: m [7, 7] n [48] k [3, 3, 32] panel 24
  %r = kernel.contract batch [] m [7, 7] n [48] k [3, 3, 32] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3, d1 + d4, d5) : tensor<9x9x32xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<48x3x3x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<7x7x48xf32>
  return %r : tensor<7x7x48xf32>
}

// -----

// Rows of 14 are cut into tiles of 5 or 4, which do as many FMAs, and read panels of two vectors less often.
// CHECK-LABEL: func.func @rows_of_fourteen
func.func @rows_of_fourteen(%x: tensor<16x16x32xf32>) -> tensor<14x14x48xf32> {
  %w = kernel.constant dense<1.0> : tensor<48x3x3x32xf32> : tensor<48x3x3x32xf32>
  // CHECK: m [14, 14] n [48] k [3, 3, 32] panel 16
  %r = kernel.contract batch [] m [14, 14] n [48] k [3, 3, 32] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3, d1 + d4, d5) : tensor<16x16x32xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<48x3x3x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<14x14x48xf32>
  return %r : tensor<14x14x48xf32>
}

// -----

// A row whose digits are multiplied has three sums for each of a panel's columns.
// CHECK-LABEL: func.func @digits
// AVX512-LABEL: func.func @digits
func.func @digits(%x: tensor<1x64xf32>) -> tensor<1x256xf32> {
  %w = kernel.constant "w" dense<-7> : tensor<256x64xi8> : tensor<256x64xi8>
  %s = kernel.constant "s" dense<0.5> : tensor<256x2xf32> : tensor<256x2xf32>
  // CHECK: m [1] n [256] k [2, 4, 8] panel 16
  // AVX512: m [1] n [256] k [2, 4, 8] panel 128
  %r = kernel.contract batch [] m [1] n [256] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<256x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to f32
    %2 = kernel.read %s (d0, d1, d2) -> (d1, d2 floordiv 32) : tensor<256x2xf32> -> f32
    %3 = arith.mulf %1, %2 : f32
    kernel.yield %3 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x256xf32>
  return %r : tensor<1x256xf32>
}
