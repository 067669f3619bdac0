// RUN: kiln-opt %s --cuda-choose-schedule --cuda-specialize-kernels --cuda-emit-kernels --canonicalize --cse --split-input-file | FileCheck %s

// What is rounded to f16 and computed with is a copy of each sum, behind the wait for it: ptxas would round the sums before.
// CHECK-LABEL: llvm.func @rounded_sm_90a(
// CHECK: nvvm.wgmma.wait.group.sync.aligned 0
// CHECK-COUNT-16: llvm.inline_asm "fma.rn.f32 $0, $1, 0f3F800000, 0f80000000;", "=f,f"
// CHECK-NOT: fma.rn.f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK-NEXT: arith.maximumf
kernel.func @rounded(%x: tensor<4096x256xf16>, %w: tensor<64x256xf16>) -> tensor<4096x64xf16> attributes {aligned} {
  %y = kernel.contract batch [] m [4096] n [64] k [256] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4096x256xf16> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x256xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %zero = arith.constant 0.0 : f16
    %s = arith.truncf %sum : f32 to f16
    %r = arith.maximumf %s, %zero : f16
    kernel.yield %r : f16
  } : tensor<4096x64xf16>
  kernel.return %y : tensor<4096x64xf16>
}

// -----

// In f32 as well.
// CHECK-LABEL: llvm.func @widened_sm_90a(
// CHECK-COUNT-16: llvm.inline_asm "fma.rn.f32
kernel.func @widened(%x: tensor<4096x256xf16>, %w: tensor<64x256xf16>) -> tensor<4096x64xf32> attributes {aligned} {
  %y = kernel.contract batch [] m [4096] n [64] k [256] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4096x256xf16> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x256xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to f16
    %r = arith.extf %s : f16 to f32
    kernel.yield %r : f32
  } : tensor<4096x64xf32>
  kernel.return %y : tensor<4096x64xf32>
}

// -----

// Sums that are rounded and written, or rounded to bf16, need no copies.
// CHECK-LABEL: llvm.func @written_sm_90a(
// CHECK-NOT: fma.rn.f32
// CHECK: llvm.return
kernel.func @written(%x: tensor<4096x256xf16>, %w: tensor<64x256xf16>) -> tensor<4096x64xf16> attributes {aligned} {
  %y = kernel.contract batch [] m [4096] n [64] k [256] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4096x256xf16> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x256xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to f16
    kernel.yield %s : f16
  } : tensor<4096x64xf16>
  kernel.return %y : tensor<4096x64xf16>
}

// -----

// CHECK-LABEL: llvm.func @wide_sm_90a(
// CHECK-NOT: fma.rn.f32
// CHECK: llvm.return
kernel.func @wide(%x: tensor<4096x256xbf16>, %w: tensor<64x256xbf16>) -> tensor<4096x64xbf16> attributes {aligned} {
  %y = kernel.contract batch [] m [4096] n [64] k [256] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4096x256xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x256xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %zero = arith.constant 0.0 : bf16
    %s = arith.truncf %sum : f32 to bf16
    %r = arith.maximumf %s, %zero : bf16
    kernel.yield %r : bf16
  } : tensor<4096x64xbf16>
  kernel.return %y : tensor<4096x64xbf16>
}
