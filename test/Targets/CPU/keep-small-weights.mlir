// RUN: kiln-opt %s --cpu-keep-small-weights --split-input-file | FileCheck %s
// RUN: kiln-opt %s --cpu-keep-small-weights --remarks-filter=cpu-keep-small-weights --split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: kiln-opt %s --cpu-keep-small-weights --cpu-set-target=cpu=x86-64-v4 --cpu-pack-contracts --split-input-file | FileCheck %s --check-prefix=PACK
// RUN: kiln-opt %s --run-reference --cpu-keep-small-weights --cpu-set-target=cpu=x86-64-v4 --cpu-pack-contracts --run-reference --split-input-file -o /dev/null

// Two maps, one after the other, become the right operand, and go away.
// REMARK: weights of small integers widened where multiplied
// CHECK-LABEL: func.func @linear
// CHECK-NOT: kernel.map
// CHECK: kernel.contract
// CHECK: rhs {
// CHECK-NEXT: kernel.read %{{.*}} (d0, d1, d2) -> (d1, d2) : tensor<16x64xi8> -> i8
// CHECK-NEXT: arith.sitofp %{{.*}} : i8 to bf16
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d1, d2 floordiv 32) : tensor<16x2xbf16> -> bf16
// CHECK: kernel.yield %{{.*}} : bf16
func.func @linear(%x: tensor<5x64xbf16>) -> tensor<5x16xbf16> {
  %w = kernel.constant "w" dense<-7> : tensor<16x64xi8> : tensor<16x64xi8>
  %s = kernel.constant "s" dense<0.5> : tensor<16x2xbf16> : tensor<16x2xbf16>
  %f = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<16x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to bf16
    kernel.yield %1 : bf16
  } : tensor<16x64xbf16>
  %y = kernel.map {
    %0 = kernel.read %f (d0, d1) -> (d0, d1) : tensor<16x64xbf16> -> bf16
    %1 = arith.extf %0 : bf16 to f32
    %2 = kernel.read %s (d0, d1) -> (d0, d1 floordiv 32) : tensor<16x2xbf16> -> bf16
    %3 = arith.extf %2 : bf16 to f32
    %4 = arith.mulf %1, %3 : f32
    %5 = arith.truncf %4 : f32 to bf16
    kernel.yield %5 : bf16
  } : tensor<16x64xbf16>
  %r = kernel.contract batch [] m [5] n [16] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x64xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d1, d2) : tensor<16x64xbf16> -> bf16
    kernel.yield %0 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<5x16xbf16>
  return %r : tensor<5x16xbf16>
}

// -----

// Functions of weights that are no scales are computed in memory, as folding does.
// REMARK: NotKept
// CHECK-LABEL: func.func @sine
// CHECK: kernel.map {
// CHECK: kernel.contract
func.func @sine(%x: tensor<5x64xf32>) -> tensor<5x16xf32> {
  %w = kernel.constant "w" dense<-7> : tensor<16x64xi8> : tensor<16x64xi8>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<16x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to f32
    %2 = math.sin %1 : f32
    kernel.yield %2 : f32
  } : tensor<16x64xf32>
  %r = kernel.contract batch [] m [5] n [16] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x64xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d1, d2) : tensor<16x64xf32> -> f32
    kernel.yield %0 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<5x16xf32>
  return %r : tensor<5x16xf32>
}

// -----

// A left operand that was quantized, too, stays bytes: four in a word, and the zero point of a row behind its words. The scale of
// a row is the epilogue's.
// REMARK: weights of small integers widened where multiplied
// CHECK-LABEL: func.func @quantized
// CHECK: %[[WORDS:.*]] = kernel.map {
// CHECK: kernel.inside (d0, d1) -> (d1) bounds [16]
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, 4*d1 + 3)
// CHECK: arith.xori
// CHECK: %[[ZERO:.*]] = arith.bitcast %{{.*}} : f32 to i32
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[ZERO]] : i32
// CHECK: } : tensor<5x17xi32>
// CHECK-NOT: kernel.map
// CHECK: kernel.contract batch [] m [5] n [16] k [64] lhs {
// CHECK-NEXT: kernel.read %[[WORDS]] (d0, d1, d2) -> (d0, d2 floordiv 4)
// CHECK: kernel.read %[[WORDS]] (d0, d1, d2) -> (d0, 16)
// CHECK: epilogue {
// CHECK-NEXT: ^bb0(%[[SUM:.*]]: f32):
// CHECK: %[[SCALE:.*]] = kernel.read %arg1 (d0, d1, d2) -> (d0)
// CHECK: arith.mulf %[[SUM]], %[[SCALE]]

// Halves of a word of weights are multiplied by words of bytes.
// PACK-LABEL: func.func @quantized
// PACK: kernel.contract batch [] m [5] n [16] k [2, 4, 2, 4] panel 16 lhs {
// PACK: kernel.index {{.*}} -> (8*(d5 mod 4))
// PACK: rhs {
// PACK: kernel.index {{.*}} -> (28 - 4*d4 - 8*d5)
func.func @quantized(%q: tensor<5x64xi8>, %sx: tensor<5xf32>, %zx: tensor<5xi8>) -> tensor<5x16xf32> {
  %w = kernel.constant "w" dense<-7> : tensor<16x64xi8> : tensor<16x64xi8>
  %s = kernel.constant "s" dense<0.5> : tensor<16x2xf32> : tensor<16x2xf32>
  %x = kernel.map {
    %0 = kernel.read %q (d0, d1) -> (d0, d1) : tensor<5x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to f32
    %2 = kernel.read %zx (d0, d1) -> (d0) : tensor<5xi8> -> i8
    %3 = arith.sitofp %2 : i8 to f32
    %4 = arith.subf %1, %3 : f32
    %5 = kernel.read %sx (d0, d1) -> (d0) : tensor<5xf32> -> f32
    %6 = arith.mulf %4, %5 : f32
    kernel.yield %6 : f32
  } : tensor<5x64xf32>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<16x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to f32
    %2 = kernel.read %s (d0, d1) -> (d0, d1 floordiv 32) : tensor<16x2xf32> -> f32
    %3 = arith.mulf %1, %2 : f32
    kernel.yield %3 : f32
  } : tensor<16x64xf32>
  %r = kernel.contract batch [] m [5] n [16] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x64xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d1, d2) : tensor<16x64xf32> -> f32
    kernel.yield %0 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<5x16xf32>
  return %r : tensor<5x16xf32>
}

// -----

// The same where activations are dequantized to bf16, and rounded on the way: what is multiplied is not.
// REMARK: weights of small integers widened where multiplied
// CHECK-LABEL: func.func @quantized_halves
// CHECK: } : tensor<5x17xi32>
// CHECK-NOT: kernel.map
// CHECK: kernel.contract batch [] m [5] n [16] k [64] lhs {
// CHECK: kernel.yield %{{.*}} : f32
// CHECK: rhs {
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK-NEXT: kernel.yield %{{.*}} : f32
// CHECK: epilogue {
// CHECK-NEXT: ^bb0(%[[SUM:.*]]: f32):
// CHECK: arith.mulf %[[SUM]], %{{.*}}
// PACK-LABEL: func.func @quantized_halves
// PACK: kernel.contract batch [] m [5] n [16] k [2, 4, 2, 4] panel 16 lhs {
func.func @quantized_halves(%q: tensor<5x64xi8>, %sx: tensor<5xbf16>, %zx: tensor<5xi8>) -> tensor<5x16xbf16> {
  %w = kernel.constant "w" dense<-7> : tensor<16x64xi8> : tensor<16x64xi8>
  %s = kernel.constant "s" dense<0.5> : tensor<16x2xf32> : tensor<16x2xf32>
  %x = kernel.map {
    %0 = kernel.read %q (d0, d1) -> (d0, d1) : tensor<5x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to bf16
    %2 = arith.extf %1 : bf16 to f32
    %3 = kernel.read %zx (d0, d1) -> (d0) : tensor<5xi8> -> i8
    %4 = arith.sitofp %3 : i8 to bf16
    %5 = arith.extf %4 : bf16 to f32
    %6 = arith.subf %2, %5 : f32
    %7 = arith.truncf %6 : f32 to bf16
    %8 = arith.extf %7 : bf16 to f32
    %9 = kernel.read %sx (d0, d1) -> (d0) : tensor<5xbf16> -> bf16
    %10 = arith.extf %9 : bf16 to f32
    %11 = arith.mulf %8, %10 : f32
    %12 = arith.truncf %11 : f32 to bf16
    kernel.yield %12 : bf16
  } : tensor<5x64xbf16>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<16x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to f32
    %2 = kernel.read %s (d0, d1) -> (d0, d1 floordiv 32) : tensor<16x2xf32> -> f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.truncf %3 : f32 to bf16
    kernel.yield %4 : bf16
  } : tensor<16x64xbf16>
  %r = kernel.contract batch [] m [5] n [16] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x64xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d1, d2) : tensor<16x64xbf16> -> bf16
    kernel.yield %0 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<5x16xbf16>
  return %r : tensor<5x16xbf16>
}
