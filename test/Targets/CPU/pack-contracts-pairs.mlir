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
