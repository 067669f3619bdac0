// RUN: kiln-opt %s --cpu-keep-small-weights --split-input-file | FileCheck %s
// RUN: kiln-opt %s --cpu-keep-small-weights --remarks-filter=cpu-keep-small-weights --split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

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
