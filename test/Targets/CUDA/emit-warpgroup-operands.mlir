// RUN: kiln-opt %s --cuda-choose-schedule --cuda-specialize-kernels --cuda-emit-kernels --canonicalize --cse --split-input-file --verify-diagnostics | FileCheck %s

// Windows over an image: all threads of the first warpgroup copy them, eight chunks each, while one starts the copy of the weights. A
// place has been filled when 129 threads have arrived and the weights' bytes are there; copies of three turns are under way. With few
// sums, all threads keep their registers.
// CHECK-LABEL: llvm.func @window_sm_90a(
// CHECK-SAME: cuda.maps = [{box = array<i64: 64, 64>, buffer = 1 : i64
// CHECK: %[[ARRIVALS:.*]] = arith.constant 129 : i32
// CHECK: nvvm.mbarrier.init %{{.*}}, %[[ARRIVALS]]
// CHECK-NOT: nvvm.setmaxregister
// CHECK: scf.for
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: scf.if
// CHECK: nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c16384_i32
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK-NOT: nvvm.cp.async.bulk
// CHECK-COUNT-4: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache =  cg, %{{.*}}
// CHECK-NOT: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK: nvvm.cp.async.wait.group 4
// CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>
// CHECK: nvvm.mbarrier.arrive
// CHECK: nvvm.cp.async.wait.group 0
// CHECK: nvvm.fence.proxy
// CHECK: nvvm.mbarrier.arrive
// CHECK: nvvm.wgmma.mma_async
kernel.func @window(%x: tensor<32x28x28x64xbf16>, %w: tensor<128x3x3x64xbf16>) -> tensor<32x28x28x128xbf16> attributes {aligned} {
  %y = kernel.contract batch [] m [32, 28, 28] n [128] k [3, 3, 64] lhs {
    %zero = arith.constant 0.0 : bf16
    %inside = kernel.inside (d0, d1, d2, d3, d4, d5, d6) -> (d1 + d4 - 1, d2 + d5 - 1) bounds [28, 28]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d4 - 1, d2 + d5 - 1, d6) if %inside else(%zero : bf16) : tensor<32x28x28x64xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2, d3, d4, d5, d6) -> (d3, d4, d5, d6) : tensor<128x3x3x64xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<32x28x28x128xbf16>
  kernel.return %y : tensor<32x28x28x128xbf16>
}

// -----

// A prologue is evaluated before the place is empty, and written in chunks of eight elements; there is nothing to wait for behind.
// Many sums leave fewer registers for it.
// CHECK-LABEL: llvm.func @prologue_sm_90a(
// CHECK: nvvm.setmaxregister decrease 120
// CHECK: arith.truncf
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.cp.async.bulk.tensor
// CHECK-COUNT-8: llvm.store %{{.*}} {alignment = 16 : i64} : vector<8xbf16>
// CHECK-NOT: llvm.store
// CHECK: nvvm.fence.proxy
// CHECK: nvvm.mbarrier.arrive
// CHECK: nvvm.setmaxregister increase 192
// CHECK: nvvm.wgmma.mma_async
kernel.func @prologue(%x: tensor<2048x1024xf32>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xf32> attributes {aligned} {
  %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xf32> -> f32
    %s = arith.truncf %a : f32 to bf16
    kernel.yield %s : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<2048x2048xf32>
  kernel.return %y : tensor<2048x2048xf32>
}
