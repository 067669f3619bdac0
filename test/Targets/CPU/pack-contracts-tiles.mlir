// RUN: kiln-opt %s --cpu-set-target=cpu=sapphirerapids --cpu-pack-contracts --split-input-file | FileCheck %s
// RUN: kiln-opt %s --cpu-set-target=cpu=znver4 --cpu-pack-contracts --split-input-file | FileCheck %s --check-prefix=VECTORS
// RUN: kiln-opt %s --run-reference --cpu-set-target=cpu=sapphirerapids --cpu-pack-contracts --run-reference --split-input-file -o /dev/null

// For tiles, a right operand is laid out in words of two steps in every run.
// CHECK-LABEL: func.func @product
// CHECK: %[[WORDS:.*]] = kernel.map {
// CHECK: } : tensor<2x24x32xi32>
// CHECK: kernel.contract batch [] m [70] n [40] k [24, 2] panel 32 lhs {
// CHECK: kernel.read %[[WORDS]]
// VECTORS-LABEL: func.func @product
// VECTORS-NOT: panel
func.func @product(%x: tensor<70x48xbf16>, %y: tensor<48x40xbf16>) -> tensor<70x40xbf16> {
  %r = kernel.contract batch [] m [70] n [40] k [48] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<70x48xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d2, d1) : tensor<48x40xbf16> -> bf16
    kernel.yield %0 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<70x40xbf16>
  return %r : tensor<70x40xbf16>
}

// -----

// Few rows do not pay for that.
// CHECK-LABEL: func.func @few_rows
// CHECK-NOT: panel
func.func @few_rows(%x: tensor<5x48xbf16>, %y: tensor<48x40xbf16>) -> tensor<5x40xbf16> {
  %r = kernel.contract batch [] m [5] n [40] k [48] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x48xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d2, d1) : tensor<48x40xbf16> -> bf16
    kernel.yield %0 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<5x40xbf16>
  return %r : tensor<5x40xbf16>
}
