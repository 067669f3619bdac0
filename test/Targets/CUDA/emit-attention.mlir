// RUN: kiln-opt %s --cuda-choose-schedule --cuda-emit-kernels --canonicalize --cse --split-input-file | FileCheck %s

// Ordinary multiplications: scores go from lane to lane, weights through shared memory.
// CHECK-LABEL: llvm.func @singles(
// CHECK-NOT: nvvm.mma.sync
// CHECK: scf.for
// CHECK: nvvm.barrier0
// CHECK: math.fma
// CHECK: nvvm.shfl.sync
// CHECK: math.exp
// CHECK-NOT: nvvm.mma.sync
// CHECK: llvm.return
kernel.func @singles(%q: tensor<2x100x64xf32>, %k: tensor<2x100x64xf32>) -> tensor<2x100x64xf32> attributes {aligned} {
  %o = kernel.attention batch [2] m <100> n <100> d <64> dv <64> scale 0.125 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x100x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x100x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x100x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x100x64xf32>
  kernel.return %o : tensor<2x100x64xf32>
}

// -----

// On tensor cores, the keys that all queries of a block see first: no score is compared with anything. Values are
// copied while scores are computed, and keys while values are multiplied.
// CHECK-LABEL: llvm.func @halves(
// CHECK-SAME: nvvm.maxntid = array<i32: 128>
// CHECK: nvvm.cp.async.wait.group 0
// CHECK: nvvm.barrier0
// CHECK: nvvm.ldmatrix
// CHECK: nvvm.cp.async.shared.global
// CHECK: scf.for
// CHECK: nvvm.cp.async.wait.group 0
// CHECK: nvvm.barrier0
// CHECK: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>
// CHECK: nvvm.mma.sync
// CHECK-NOT: arith.cmpi slt, %{{.*}} : i32
// CHECK: nvvm.barrier0
// CHECK: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK: arith.maximumf
// CHECK: nvvm.shfl.sync
// CHECK: math.fma
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"
// CHECK: llvm.call_intrinsic "llvm.nvvm.ff2bf16x2.rn"
// CHECK: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<col>
// CHECK: nvvm.mma.sync
// CHECK: scf.for
// CHECK: nvvm.mma.sync
// CHECK: arith.cmpi {{.*}} : i32
// CHECK: nvvm.mma.sync
// CHECK: llvm.return
kernel.func @halves(%q: tensor<?x100x64xbf16, #sym.shape<[s0, 100, 64]>>, %k: tensor<?x100x64xbf16, #sym.shape<[s0, 100, 64]>>)
    -> tensor<?x100x64xbf16, #sym.shape<[s0, 100, 64]>> attributes {aligned} {
  %o = kernel.attention batch [s0] m <100> n <100> d <64> dv <64> scale 0.125 causal q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<?x100x64xbf16, #sym.shape<[s0, 100, 64]>> -> bf16
    kernel.yield %a : bf16
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<?x100x64xbf16, #sym.shape<[s0, 100, 64]>> -> bf16
    kernel.yield %a : bf16
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<?x100x64xbf16, #sym.shape<[s0, 100, 64]>> -> bf16
    kernel.yield %a : bf16
  } bias {
  } : tensor<?x100x64xbf16, #sym.shape<[s0, 100, 64]>>
  kernel.return %o : tensor<?x100x64xbf16, #sym.shape<[s0, 100, 64]>>
}
