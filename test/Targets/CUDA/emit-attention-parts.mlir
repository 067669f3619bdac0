// RUN: kiln-opt %s --cuda-choose-schedule --cuda-emit-kernels --canonicalize --cse --split-input-file | FileCheck %s

// Each block takes one of the parts into which the keys are split, and one lane of a row leaves the part's maximum and sum
// beside the part's result. Keys that are computed go through registers; values, which are not, are copied.
// CHECK-LABEL: llvm.func @halves(
// CHECK-SAME: cuda.buffers = [#sym.expr<4096>, #sym.expr<65536>, #sym.expr<8192>, #sym.expr<16384>, #sym.expr<256>, #sym.expr<256>]
// CHECK: scf.for
// CHECK: llvm.getelementptr %arg1
// CHECK: arith.addf %[[K:.*]], %[[K]] : bf16
// CHECK: nvvm.cp.async.shared.global
// CHECK: llvm.getelementptr %arg2
// CHECK: nvvm.mma.sync
// CHECK: arith.addf %[[NEXT:.*]], %[[NEXT]] : bf16
// CHECK: llvm.getelementptr %arg3
// CHECK: scf.if
// CHECK: %[[TO:.*]] = llvm.getelementptr %arg4[%[[AT:.*]]]
// CHECK: llvm.store %{{.*}}, %[[TO]]
// CHECK: %[[SUM:.*]] = llvm.getelementptr %arg5[%[[AT]]]
// CHECK: llvm.store %{{.*}}, %[[SUM]]
// CHECK: llvm.return
kernel.func @halves(%q: tensor<2x16x64xbf16>, %k: tensor<2x256x64xbf16>, %bias: tensor<16x256xbf16>)
    -> (tensor<2x2x16x64xf32>, tensor<2x2x16xf32>, tensor<2x2x16xf32>) attributes {aligned} {
  %o:3 = kernel.attention batch [2] m <16> n <256> d <64> dv <64> scale 0.125 part 128 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x16x64xbf16> -> bf16
    kernel.yield %a : bf16
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x256x64xbf16> -> bf16
    %b = arith.addf %a, %a : bf16
    kernel.yield %b : bf16
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x256x64xbf16> -> bf16
    kernel.yield %a : bf16
  } bias {
    %a = kernel.read %bias (d0, d1, d2, d3, d4) -> (d1, d2) : tensor<16x256xbf16> -> bf16
    kernel.yield %a : bf16
  } : tensor<2x2x16x64xf32>, tensor<2x2x16xf32>, tensor<2x2x16xf32>
  kernel.return %o#0, %o#1, %o#2 : tensor<2x2x16x64xf32>, tensor<2x2x16xf32>, tensor<2x2x16xf32>
}

// -----

// CHECK-LABEL: llvm.func @singles(
// CHECK-NOT: nvvm.mma.sync
// CHECK: llvm.getelementptr %arg2
// CHECK: math.exp
// CHECK: llvm.getelementptr %arg3
// CHECK: scf.if
// CHECK: %[[TO:.*]] = llvm.getelementptr %arg4[%[[AT:.*]]]
// CHECK: llvm.store %{{.*}}, %[[TO]]
// CHECK: %[[SUM:.*]] = llvm.getelementptr %arg5[%[[AT]]]
// CHECK: llvm.store %{{.*}}, %[[SUM]]
// CHECK: llvm.return
kernel.func @singles(%q: tensor<2x16x64xf32>, %k: tensor<2x256x64xf32>, %bias: tensor<16x256xf32>)
    -> (tensor<2x2x16x64xf32>, tensor<2x2x16xf32>, tensor<2x2x16xf32>) attributes {aligned} {
  %o:3 = kernel.attention batch [2] m <16> n <256> d <64> dv <64> scale 0.125 part 128 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x16x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x256x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x256x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
    %a = kernel.read %bias (d0, d1, d2, d3, d4) -> (d1, d2) : tensor<16x256xf32> -> f32
    kernel.yield %a : f32
  } : tensor<2x2x16x64xf32>, tensor<2x2x16xf32>, tensor<2x2x16xf32>
  kernel.return %o#0, %o#1, %o#2 : tensor<2x2x16x64xf32>, tensor<2x2x16xf32>, tensor<2x2x16xf32>
}
