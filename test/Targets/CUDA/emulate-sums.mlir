// RUN: kiln-opt %s --cuda-lower-kernels --cuda-emulate | FileCheck %s

// Products hand their sums on, from step to step; what is stored is asked for, once for each register, and so is what is left for another
// block, or added to.
// CHECK-LABEL: llvm.func @product_sm_90a(
// CHECK-NOT: llvm.call @kiln_emulator_sum(
// CHECK: llvm.call @kiln_emulator_wgmma(
// CHECK: llvm.call @kiln_emulator_wgmma_commit
// CHECK: llvm.call @kiln_emulator_wgmma_wait
// CHECK-NOT: llvm.call @kiln_emulator_wgmma(
// CHECK: llvm.call @kiln_emulator_sum(%{{.*}}) : (f32) -> f32
// CHECK: llvm.return
kernel.func @product(%x: tensor<2048x1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xbf16> attributes {aligned} {
  %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<2048x2048xbf16>
  kernel.return %y : tensor<2048x2048xbf16>
}
