// RUN: kiln-opt %s --kernel-fuse-maps --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --kernel-fuse-maps --run-reference --split-input-file -o /dev/null

// A chain with one consumer each becomes one map.
// CHECK-LABEL: func.func @chain
// CHECK-COUNT-1: kernel.map
// CHECK: math.tanh
// CHECK: math.exp
// CHECK-NOT: kernel.map
func.func @chain(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %a = kernel.map {
    %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<8x4xf32>
  %b = kernel.map {
    %e = kernel.read %a (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    %t = math.exp %e : f32
    kernel.yield %t : f32
  } : tensor<8x4xf32>
  return %b : tensor<8x4xf32>
}

// -----

// An expensive body whose result is broadcast is not computed for every element.
// CHECK-LABEL: func.func @broadcast
// CHECK: kernel.map
// CHECK: math.exp
// CHECK: kernel.map
func.func @broadcast(%x: tensor<4xf32>) -> tensor<8x4xf32> {
  %a = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    %t = math.exp %e : f32
    kernel.yield %t : f32
  } : tensor<4xf32>
  %b = kernel.map {
    %e = kernel.read %a (d0, d1) -> (d1) : tensor<4xf32> -> f32
    kernel.yield %e : f32
  } : tensor<8x4xf32>
  %c = kernel.map {
    %e = kernel.read %b (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    %t = arith.addf %e, %e : f32
    kernel.yield %t : f32
  } : tensor<8x4xf32>
  return %c : tensor<8x4xf32>
}

// -----

// A row's sum is pulled into the map over the row's elements: it stays at the row's loop.
// CHECK-LABEL: func.func @row
// CHECK-COUNT-1: kernel.map
// CHECK: kernel.reduce [64]
// CHECK-NOT: kernel.map
func.func @row(%x: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %sum = kernel.map {
    %zero = arith.constant 0.0 : f32
    %r = kernel.reduce [64] init(%zero : f32) {
      %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<32x64xf32> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %r : f32
  } : tensor<32xf32>
  %y = kernel.map {
    %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<32x64xf32> -> f32
    %s = kernel.read %sum (d0, d1) -> (d0) : tensor<32xf32> -> f32
    %q = arith.divf %e, %s : f32
    kernel.yield %q : f32
  } : tensor<32x64xf32>
  return %y : tensor<32x64xf32>
}

// -----

// A column's sum would be computed for every element: it stays a kernel of its own.
// CHECK-LABEL: func.func @column
// CHECK-COUNT-2: kernel.map
func.func @column(%x: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %sum = kernel.map {
    %zero = arith.constant 0.0 : f32
    %r = kernel.reduce [32] init(%zero : f32) {
      %e = kernel.read %x (d0, d1) -> (d1, d0) : tensor<32x64xf32> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %r : f32
  } : tensor<64xf32>
  %y = kernel.map {
    %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<32x64xf32> -> f32
    %s = kernel.read %sum (d0, d1) -> (d1) : tensor<64xf32> -> f32
    %q = arith.divf %e, %s : f32
    kernel.yield %q : f32
  } : tensor<32x64xf32>
  return %y : tensor<32x64xf32>
}

// -----

// What is computed from constants alone, and folding has left for its size, is computed where it is multiplied.
// CHECK-LABEL: func.func @dequantize
// CHECK-NOT: kernel.map
// CHECK: rhs {
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d1, d2) : tensor<96x64xi8> -> i8
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d1) : tensor<96xf32> -> f32
func.func @dequantize(%x: tensor<2x64xf32>) -> tensor<2x96xf32> {
  %w = kernel.constant dense<1> : tensor<96x64xi8> : tensor<96x64xi8>
  %s = kernel.constant dense<1.0> : tensor<96xf32> : tensor<96xf32>
  %d = kernel.map {
    %i = kernel.read %w (d0, d1) -> (d0, d1) : tensor<96x64xi8> -> i8
    %f = arith.sitofp %i : i8 to f32
    %c = kernel.read %s (d0, d1) -> (d0) : tensor<96xf32> -> f32
    %b = arith.mulf %f, %c : f32
    kernel.yield %b : f32
  } : tensor<96x64xf32>
  %r = kernel.contract batch [] m [2] n [96] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %d (d0, d1, d2) -> (d1, d2) : tensor<96x64xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<2x96xf32>
  return %r : tensor<2x96xf32>
}

// -----

// What is outside of the reader's mask does not exist, and fails no expectation.
// CHECK-LABEL: func.func @padded_expectation
// CHECK: %[[IN:.*]] = kernel.inside (d0) -> (d0 - 1) bounds [8]
// CHECK: %[[OK:.*]] = arith.cmpi ne
// CHECK: %[[OUT:.*]] = arith.xori %[[IN]], %true
// CHECK: %[[EITHER:.*]] = arith.ori %[[OK]], %[[OUT]]
// CHECK: kernel.expect %{{.*}} if %[[EITHER]], "zero" : i64
func.func @padded_expectation(%x: tensor<8xi64>) -> tensor<10xi64> {
  %a = kernel.map {
    %zero = arith.constant 0 : i64
    %e = kernel.read %x (d0) -> (d0) : tensor<8xi64> -> i64
    %ok = arith.cmpi ne, %e, %zero : i64
    %d = kernel.expect %e if %ok, "zero" : i64
    kernel.yield %d : i64
  } : tensor<8xi64>
  %b = kernel.map {
    %zero = arith.constant 0 : i64
    %in = kernel.inside (d0) -> (d0 - 1) bounds [8]
    %e = kernel.read %a (d0) -> (d0 - 1) if %in else(%zero : i64) : tensor<8xi64> -> i64
    kernel.yield %e : i64
  } : tensor<10xi64>
  return %b : tensor<10xi64>
}

// -----

// Half of a rotation: a sign is trivial of bf16, too, although it is changed in f32.
// CHECK-LABEL: func.func @rotate
// CHECK-COUNT-1: kernel.map
// CHECK: arith.negf
// CHECK-NOT: kernel.map
func.func @rotate(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %minus = kernel.map {
    %e = kernel.read %x (d0, d1) -> (d0, d1 + 4) : tensor<4x8xbf16> -> bf16
    %f = arith.extf %e : bf16 to f32
    %n = arith.negf %f : f32
    %r = arith.truncf %n : f32 to bf16
    kernel.yield %r : bf16
  } : tensor<4x4xbf16>
  %y = kernel.map {
    %left = kernel.inside (d0, d1) -> (d1) bounds [4]
    %right = kernel.inside (d0, d1) -> (d1 - 4) bounds [4]
    %zero = arith.constant 0.0 : bf16
    %e = kernel.read %x (d0, d1) -> (d0, d1 - 4) if %right else(%zero : bf16) : tensor<4x8xbf16> -> bf16
    %r = kernel.read %minus (d0, d1) -> (d0, d1) if %left else(%e : bf16) : tensor<4x4xbf16> -> bf16
    kernel.yield %r : bf16
  } : tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}

// -----

// Both halves of a rotary embedding, each of which is computed for all elements, and only once: together they would be more.
// CHECK-LABEL: func.func @halves
// CHECK-COUNT-1: kernel.map
// CHECK: kernel.inside (d0, d1) -> (d1 - 4) bounds [4]
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1 - 4) if
// CHECK: kernel.inside (d0, d1) -> (d1) bounds [4]
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1 + 4) if
// CHECK-NOT: kernel.map
func.func @halves(%x: tensor<3x8xf32>, %angle: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %low = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1 + 4) : tensor<3x8xf32> -> f32
    %c = kernel.read %angle (d0, d1) -> (d0, d1) : tensor<3x4xf32> -> f32
    %p = arith.mulf %a, %c : f32
    kernel.yield %p : f32
  } : tensor<3x4xf32>
  %high = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<3x8xf32> -> f32
    %c = kernel.read %angle (d0, d1) -> (d0, d1) : tensor<3x4xf32> -> f32
    %p = arith.mulf %a, %c : f32
    kernel.yield %p : f32
  } : tensor<3x4xf32>
  %both = kernel.map {
    %zero = arith.constant 0.0 : f32
    %inHigh = kernel.inside (d0, d1) -> (d1 - 4) bounds [4]
    %h = kernel.read %high (d0, d1) -> (d0, d1 - 4) if %inHigh else(%zero : f32) : tensor<3x4xf32> -> f32
    %inLow = kernel.inside (d0, d1) -> (d1) bounds [4]
    %l = kernel.read %low (d0, d1) -> (d0, d1) if %inLow else(%h : f32) : tensor<3x4xf32> -> f32
    kernel.yield %l : f32
  } : tensor<3x8xf32>
  return %both : tensor<3x8xf32>
}

// -----

// A part of three would be computed three times as often as it is read.
// CHECK-LABEL: func.func @thirds
// CHECK-COUNT-2: kernel.map
func.func @thirds(%x: tensor<3x4xf32>, %y: tensor<3x8xf32>) -> tensor<3x12xf32> {
  %low = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<3x4xf32> -> f32
    %c = kernel.read %y (d0, d1) -> (d0, d1) : tensor<3x8xf32> -> f32
    %p = arith.mulf %a, %c : f32
    kernel.yield %p : f32
  } : tensor<3x4xf32>
  %both = kernel.map {
    %zero = arith.constant 0.0 : f32
    %inHigh = kernel.inside (d0, d1) -> (d1 - 4) bounds [8]
    %h = kernel.read %y (d0, d1) -> (d0, d1 - 4) if %inHigh else(%zero : f32) : tensor<3x8xf32> -> f32
    %inLow = kernel.inside (d0, d1) -> (d1) bounds [4]
    %l = kernel.read %low (d0, d1) -> (d0, d1) if %inLow else(%h : f32) : tensor<3x4xf32> -> f32
    kernel.yield %l : f32
  } : tensor<3x12xf32>
  return %both : tensor<3x12xf32>
}

// -----

// What a product computes once in its epilogue is not computed at each of two places, however cheap.
// CHECK-LABEL: func.func @epilogue
// CHECK: kernel.contract
// CHECK: kernel.map
// CHECK: math.erf
// CHECK: kernel.map
// CHECK-NOT: math.erf
// CHECK: return
func.func @epilogue(%x: tensor<8x4xf32>, %w: tensor<6x4xf32>) -> tensor<8x3xf32> {
  %y = kernel.contract batch [] m [8] n [6] k [4] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x4xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<6x4xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<8x6xf32>
  %a = kernel.map {
    %e = kernel.read %y (d0, d1) -> (d0, d1) : tensor<8x6xf32> -> f32
    %t = math.erf %e : f32
    %u = arith.mulf %t, %e : f32
    %v = arith.addf %u, %e : f32
    kernel.yield %v : f32
  } : tensor<8x6xf32>
  %b = kernel.map {
    %e = kernel.read %a (d0, d1) -> (d0, 2*d1) : tensor<8x6xf32> -> f32
    %f = kernel.read %a (d0, d1) -> (d0, 2*d1 + 1) : tensor<8x6xf32> -> f32
    %g = arith.subf %e, %f : f32
    kernel.yield %g : f32
  } : tensor<8x3xf32>
  return %b : tensor<8x3xf32>
}

// -----

// Padded bytes are dequantized by windows of stride 2, 2.25 times each, and not by those of stride 1, which would do so nine times.
// CHECK-LABEL: func.func @bytes
// CHECK-COUNT-3: kernel.map
// CHECK-NOT: kernel.map
// CHECK: return
func.func @bytes(%x: tensor<16x16x8xui8>, %w: tensor<3x3x8xf32>) -> (tensor<8x8x8xf32>, tensor<15x15x8xf32>) {
  %p = kernel.map {
    %zero = arith.constant 0 : i8
    %scale = arith.constant 0.25 : f32
    %inside = kernel.inside (d0, d1, d2) -> (d0, d1) bounds [16, 16]
    %e = kernel.read %x (d0, d1, d2) -> (d0, d1, d2) if %inside else(%zero : i8) : tensor<16x16x8xui8> -> i8
    %s = arith.select %inside, %e, %zero : i8
    %f = arith.uitofp %s : i8 to f32
    %g = arith.mulf %f, %scale : f32
    kernel.yield %g : f32
  } : tensor<17x17x8xf32>
  %q = kernel.map {
    %zero = arith.constant 0 : i8
    %scale = arith.constant 0.5 : f32
    %inside = kernel.inside (d0, d1, d2) -> (d0, d1) bounds [16, 16]
    %e = kernel.read %x (d0, d1, d2) -> (d0, d1, d2) if %inside else(%zero : i8) : tensor<16x16x8xui8> -> i8
    %s = arith.select %inside, %e, %zero : i8
    %f = arith.uitofp %s : i8 to f32
    %g = arith.mulf %f, %scale : f32
    kernel.yield %g : f32
  } : tensor<17x17x8xf32>
  %half = kernel.map {
    %init = arith.constant 0.0 : f32
    %s = kernel.reduce [3, 3] init(%init : f32) {
      %a = kernel.read %p (d0, d1, d2, d3, d4) -> (2*d0 + d3, 2*d1 + d4, d2) : tensor<17x17x8xf32> -> f32
      %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d3, d4, d2) : tensor<3x3x8xf32> -> f32
      %c = arith.mulf %a, %b : f32
      kernel.yield %c : f32
    } combine {
    ^bb0(%u: f32, %v: f32):
      %t = arith.addf %u, %v : f32
      kernel.yield %t : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<8x8x8xf32>
  %whole = kernel.map {
    %init = arith.constant 0.0 : f32
    %s = kernel.reduce [3, 3] init(%init : f32) {
      %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0 + d3, d1 + d4, d2) : tensor<17x17x8xf32> -> f32
      %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d3, d4, d2) : tensor<3x3x8xf32> -> f32
      %c = arith.mulf %a, %b : f32
      kernel.yield %c : f32
    } combine {
    ^bb0(%u: f32, %v: f32):
      %t = arith.addf %u, %v : f32
      kernel.yield %t : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<15x15x8xf32>
  return %half, %whole : tensor<8x8x8xf32>, tensor<15x15x8xf32>
}

// -----

// What makes an operand of real numbers out of complex ones stays outside of the product, which is computed in vectors.
// CHECK-LABEL: func.func @complex_operand
// CHECK: kernel.map
// CHECK: complex.re
// CHECK: kernel.contract
// CHECK-NOT: complex
func.func @complex_operand(%x: tensor<4x32xcomplex<f32>>, %w: tensor<8x32xf32>) -> tensor<4x8xf32> {
  %r = kernel.map {
    %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<4x32xcomplex<f32>> -> complex<f32>
    %y = complex.re %e : complex<f32>
    kernel.yield %y : f32
  } : tensor<4x32xf32>
  %c = kernel.contract batch [] m [4] n [8] k [32] lhs {
    %e = kernel.read %r (d0, d1, d2) -> (d0, d2) : tensor<4x32xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<8x32xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<4x8xf32>
  return %c : tensor<4x8xf32>
}

// -----

// A product writes its result as the bytes that somebody makes of it, not as larger numbers for others to do so.
// CHECK-LABEL: func.func @narrowed
// CHECK: kernel.contract
// CHECK: %[[BYTES:.*]] = kernel.map
// CHECK: : tensor<4x8xui8>
// CHECK: kernel.map
// CHECK: kernel.read %[[BYTES]]
func.func @narrowed(%x: tensor<4x32xf32>, %w: tensor<8x32xf32>, %o: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = kernel.contract batch [] m [4] n [8] k [32] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4x32xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<8x32xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<4x8xf32>
  %q = kernel.map {
    %low = arith.constant 0.0 : f32
    %high = arith.constant 255.0 : f32
    %scale = arith.constant 8.0 : f32
    %e = kernel.read %c (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
    %a = arith.mulf %e, %scale : f32
    %r = math.roundeven %a : f32
    %m = arith.maximumf %r, %low : f32
    %n = arith.minimumf %m, %high : f32
    %b = arith.fptosi %n : f32 to i32
    %i = arith.trunci %b : i32 to i8
    kernel.yield %i : i8
  } : tensor<4x8xui8>
  %d = kernel.map {
    %scale = arith.constant 0.125 : f32
    %e = kernel.read %q (d0, d1) -> (d0, d1) : tensor<4x8xui8> -> i8
    %f = arith.uitofp %e : i8 to f32
    %g = arith.mulf %f, %scale : f32
    %h = kernel.read %o (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
    %s = arith.addf %g, %h : f32
    kernel.yield %s : f32
  } : tensor<4x8xf32>
  return %d : tensor<4x8xf32>
}

// -----

// Attention of few queries reads rows that a table finds where they are; that of many, or where the table has to do with features,
// reads a copy of them.
// CHECK-LABEL: func.func @paged
// CHECK-NOT: kernel.map
// CHECK: kernel.attention
// CHECK: k {
// CHECK: %[[BLOCK:.*]] = kernel.read %arg2
// CHECK: kernel.read %arg1 {{.*}} values(%[[BLOCK]])
// CHECK-LABEL: func.func @many
// CHECK: kernel.map
// CHECK: kernel.attention
// CHECK-LABEL: func.func @features
// CHECK: kernel.map
// CHECK: kernel.attention
func.func @paged(%q: tensor<2x1x8xf32>, %cache: tensor<7x16x8xf32>, %table: tensor<2x2xi64>) -> tensor<2x1x8xf32> {
  %k = kernel.map {
    %0 = kernel.read %table (d0, d1, d2, d3) -> (d0, d1) : tensor<2x2xi64> -> i64
    %1 = kernel.read %cache (d0, d1, d2, d3, d4) -> (d4, d2, d3) values(%0) : tensor<7x16x8xf32> -> f32
    kernel.yield %1 : f32
  } : tensor<2x2x16x8xf32>
  %r = kernel.attention batch [2] m <1> n <32> d <8> dv <8> scale 1.0 q {
    %0 = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x1x8xf32> -> f32
    kernel.yield %0 : f32
  } k {
    %0 = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2 floordiv 16, d2 mod 16, d3) : tensor<2x2x16x8xf32> -> f32
    kernel.yield %0 : f32
  } v {
    %0 = kernel.read %cache (d0, d1, d2, d3, d4) -> (d2 floordiv 16, d2 mod 16, d4) : tensor<7x16x8xf32> -> f32
    kernel.yield %0 : f32
  } bias {
  } : tensor<2x1x8xf32>
  return %r : tensor<2x1x8xf32>
}

func.func @many(%q: tensor<2x17x8xf32>, %cache: tensor<7x16x8xf32>, %table: tensor<2x2xi64>) -> tensor<2x17x8xf32> {
  %k = kernel.map {
    %0 = kernel.read %table (d0, d1, d2, d3) -> (d0, d1) : tensor<2x2xi64> -> i64
    %1 = kernel.read %cache (d0, d1, d2, d3, d4) -> (d4, d2, d3) values(%0) : tensor<7x16x8xf32> -> f32
    kernel.yield %1 : f32
  } : tensor<2x2x16x8xf32>
  %r = kernel.attention batch [2] m <17> n <32> d <8> dv <8> scale 1.0 q {
    %0 = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x17x8xf32> -> f32
    kernel.yield %0 : f32
  } k {
    %0 = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2 floordiv 16, d2 mod 16, d3) : tensor<2x2x16x8xf32> -> f32
    kernel.yield %0 : f32
  } v {
    %0 = kernel.read %cache (d0, d1, d2, d3, d4) -> (d2 floordiv 16, d2 mod 16, d4) : tensor<7x16x8xf32> -> f32
    kernel.yield %0 : f32
  } bias {
  } : tensor<2x17x8xf32>
  return %r : tensor<2x17x8xf32>
}

func.func @features(%q: tensor<2x1x8xf32>, %cache: tensor<7x16x8xf32>, %table: tensor<2x2x8xi64>) -> tensor<2x1x8xf32> {
  %k = kernel.map {
    %0 = kernel.read %table (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x2x8xi64> -> i64
    %1 = kernel.read %cache (d0, d1, d2, d3, d4) -> (d4, d2, d3) values(%0) : tensor<7x16x8xf32> -> f32
    kernel.yield %1 : f32
  } : tensor<2x2x16x8xf32>
  %r = kernel.attention batch [2] m <1> n <32> d <8> dv <8> scale 1.0 q {
    %0 = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x1x8xf32> -> f32
    kernel.yield %0 : f32
  } k {
    %0 = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2 floordiv 16, d2 mod 16, d3) : tensor<2x2x16x8xf32> -> f32
    kernel.yield %0 : f32
  } v {
    %0 = kernel.read %cache (d0, d1, d2, d3, d4) -> (d2 floordiv 16, d2 mod 16, d4) : tensor<7x16x8xf32> -> f32
    kernel.yield %0 : f32
  } bias {
  } : tensor<2x1x8xf32>
  return %r : tensor<2x1x8xf32>
}

// -----

// One query or two read keys in bytes, which are extended at once; others read floats.
// CHECK-LABEL: func.func @bytes
// CHECK-NOT: kernel.map
// CHECK: k {
// CHECK: %[[BYTE:.*]] = kernel.read %arg1
// CHECK: arith.sitofp %[[BYTE]] : i8 to f32
// CHECK-LABEL: func.func @floats
// CHECK: kernel.map
// CHECK: kernel.attention
func.func @bytes(%q: tensor<2x2x8xbf16>, %keys: tensor<2x32x8xsi8>, %scales: tensor<2x32xbf16>, %v: tensor<2x32x8xbf16>) -> tensor<2x2x8xbf16> {
  %k = kernel.map {
    %0 = kernel.read %keys (d0, d1, d2) -> (d0, d1, d2) : tensor<2x32x8xsi8> -> i8
    %1 = arith.sitofp %0 : i8 to bf16
    %2 = arith.extf %1 : bf16 to f32
    %3 = kernel.read %scales (d0, d1, d2) -> (d0, d1) : tensor<2x32xbf16> -> bf16
    %4 = arith.extf %3 : bf16 to f32
    %5 = arith.mulf %2, %4 : f32
    %6 = arith.truncf %5 : f32 to bf16
    kernel.yield %6 : bf16
  } : tensor<2x32x8xbf16>
  %r = kernel.attention batch [2] m <2> n <32> d <8> dv <8> scale 1.0 q {
    %0 = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x2x8xbf16> -> bf16
    kernel.yield %0 : bf16
  } k {
    %0 = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x32x8xbf16> -> bf16
    kernel.yield %0 : bf16
  } v {
    %0 = kernel.read %v (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x32x8xbf16> -> bf16
    kernel.yield %0 : bf16
  } bias {
  } : tensor<2x2x8xbf16>
  return %r : tensor<2x2x8xbf16>
}

func.func @floats(%q: tensor<2x3x8xbf16>, %keys: tensor<2x32x8xsi8>, %scales: tensor<2x32xbf16>, %v: tensor<2x32x8xbf16>) -> tensor<2x3x8xbf16> {
  %k = kernel.map {
    %0 = kernel.read %keys (d0, d1, d2) -> (d0, d1, d2) : tensor<2x32x8xsi8> -> i8
    %1 = arith.sitofp %0 : i8 to bf16
    %2 = arith.extf %1 : bf16 to f32
    %3 = kernel.read %scales (d0, d1, d2) -> (d0, d1) : tensor<2x32xbf16> -> bf16
    %4 = arith.extf %3 : bf16 to f32
    %5 = arith.mulf %2, %4 : f32
    %6 = arith.truncf %5 : f32 to bf16
    kernel.yield %6 : bf16
  } : tensor<2x32x8xbf16>
  %r = kernel.attention batch [2] m <3> n <32> d <8> dv <8> scale 1.0 q {
    %0 = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x3x8xbf16> -> bf16
    kernel.yield %0 : bf16
  } k {
    %0 = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x32x8xbf16> -> bf16
    kernel.yield %0 : bf16
  } v {
    %0 = kernel.read %v (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x32x8xbf16> -> bf16
    kernel.yield %0 : bf16
  } bias {
  } : tensor<2x3x8xbf16>
  return %r : tensor<2x3x8xbf16>
}
