// RUN: kiln-opt %s --cuda-choose-schedule --cuda-specialize-kernels --cuda-emit-kernels --canonicalize --cse --split-input-file --verify-diagnostics | FileCheck %s

// One thread copies, two warpgroups have 64 queries each. The last block of keys is compared with each query, the others are not. Scores
// are asked for before weights are multiplied with the values of the block before, and waited for first; in front of the wait for the
// latter, behind the exponentials, is one for values that have come, past which ptxas moves nothing. Heads share keys, and both of a tile's
// halves of features come as a box.
// CHECK-LABEL: llvm.func @causal_sm_90a(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>, nvvm.grid_constant}
// CHECK-SAME: %[[K:[a-z0-9]+]]: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>, nvvm.grid_constant}
// CHECK-SAME: %[[V:[a-z0-9]+]]: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>, nvvm.grid_constant}
// CHECK-SAME: cuda.grid = #sym.expr<1024>
// CHECK-SAME: {box = array<i64: 64, 128, 1, 1>, buffer = 0 : i64, bytes = 2 : i64, numbers = [#sym.expr<0>, #sym.expr<128>, #sym.expr<4096>, #sym.expr<2>, #sym.expr<16>, #sym.expr<128>, #sym.expr<8388608>, #sym.expr<524288>]}
// CHECK-SAME: {box = array<i64: 64, 128, 1, 1>, buffer = 1 : i64, bytes = 2 : i64, numbers = [#sym.expr<0>, #sym.expr<128>, #sym.expr<4096>, #sym.expr<2>, #sym.expr<4>, #sym.expr<128>, #sym.expr<2097152>, #sym.expr<524288>]}
// CHECK-SAME: cuda.variant_of = @causal
// CHECK-SAME: nvvm.maxntid = array<i32: 384>, nvvm.minctasm = 1 : i32
// CHECK: nvvm.setmaxregister decrease 40
// CHECK: scf.for
// CHECK: nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c32768_i32
// CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[Q]], {{.*}}box[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}]
// CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[K]],
// CHECK: scf.for
// CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[K]],
// CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[V]],
// CHECK: }
// CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[V]],
// CHECK: nvvm.setmaxregister increase 232
// CHECK: scf.for
// CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 128, k = 16>, D[<f32>, <zero>], A[<bf16>, <one>, <row>], B[<bf16>, <one>, <col>]
// CHECK-COUNT-7: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
// CHECK: nvvm.wgmma.wait.group.sync.aligned 0
// CHECK: arith.cmpi sgt, %{{.*}} : i32
// CHECK: scf.for
// CHECK-NOT: arith.cmpi sgt, %{{.*}} : i32
// The keys have come; the turn; then the values have, and the turn is passed on before anything is waited for.
// CHECK-COUNT-2: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.wgmma.fence.aligned
// CHECK-COUNT-8: nvvm.wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK: nvvm.wgmma.fence.aligned
// CHECK-COUNT-8: llvm.inline_asm has_side_effects {{.*}}cuda.register_product = {columns = 128 : i64, half = false, turned = true}{{.*}}wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK: nvvm.mbarrier.arrive
// CHECK: nvvm.wgmma.wait.group.sync.aligned 1
// CHECK: llvm.inline_asm has_side_effects "", "=f
// CHECK: nvvm.mbarrier.arrive
// CHECK: arith.maximumf
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"
// CHECK: nvvm.mbarrier.try_wait.parity {{.*}}cuda.ask_again
// CHECK-NEXT: nvvm.wgmma.wait.group.sync.aligned 0
// CHECK: nvvm.mbarrier.arrive
// CHECK: llvm.call_intrinsic "llvm.nvvm.ff2bf16x2.rn"
// CHECK: }
// CHECK-COUNT-8: cuda.register_product
// CHECK-COUNT-8: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>
// CHECK-NOT: llvm.store
// CHECK: llvm.return
kernel.func @causal(%q: tensor<2x16x4096x128xbf16>, %k: tensor<2x4x4096x128xbf16>, %v: tensor<2x4x4096x128xbf16>) -> tensor<2x4096x16x128xbf16> attributes {aligned} {
  %o = kernel.attention batch [2, 16] m <4096> n <4096> d <128> dv <128> scale 0.125 causal perm [0, 2, 1, 3] q {
    %a = kernel.read %q (d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4) : tensor<2x16x4096x128xbf16> -> bf16
    kernel.yield %a : bf16
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4, d5) -> (d0, d1 floordiv 4, d3, d4) : tensor<2x4x4096x128xbf16> -> bf16
    kernel.yield %a : bf16
  } v {
    %a = kernel.read %v (d0, d1, d2, d3, d4, d5) -> (d0, d1 floordiv 4, d3, d5) : tensor<2x4x4096x128xbf16> -> bf16
    kernel.yield %a : bf16
  } bias {
  } : tensor<2x4096x16x128xbf16>
  kernel.return %o : tensor<2x4096x16x128xbf16>
}

// -----

// No block of 128 divides into keys of unknown number, operands are parts of one tensor, and sums of 64 features leave half as many
// products: of 64 columns.
// CHECK-LABEL: llvm.func @packed_sm_90a(
// CHECK-SAME: cuda.grid = #sym.expr<24*(s0 ceildiv 128)>
// CHECK-SAME: numbers = [#sym.expr<0>, #sym.expr<64>, #sym.expr<s0>, #sym.expr<2>, #sym.expr<12>, #sym.expr<2304>, #sym.expr<2304*s0>, #sym.expr<64>]
// CHECK-SAME: numbers = [#sym.expr<768>, #sym.expr<64>, #sym.expr<s0>,
// CHECK-SAME: numbers = [#sym.expr<1536>, #sym.expr<64>, #sym.expr<s0>,
// CHECK: nvvm.setmaxregister decrease 40
// CHECK: arith.cmpi sgt, %{{.*}} : i32
// CHECK: columns = 64 : i64, half = true, turned = true
module attributes {sym.symbols = {s0 = {min = 1, max = 1000000}}} {
kernel.func @packed(%x: tensor<2x?x2304xf16, #sym.shape<[2, s0, 2304]>>) -> tensor<2x?x12x64xf16, #sym.shape<[2, s0, 12, 64]>> attributes {aligned} {
  %o = kernel.attention batch [2, 12] m <s0> n <s0> d <64> dv <64> scale 0.125 perm [0, 2, 1, 3] q {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d2, 64*d1 + d4) : tensor<2x?x2304xf16, #sym.shape<[2, s0, 2304]>> -> f16
    kernel.yield %a : f16
  } k {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d3, 64*d1 + d4 + 768) : tensor<2x?x2304xf16, #sym.shape<[2, s0, 2304]>> -> f16
    kernel.yield %a : f16
  } v {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d3, 64*d1 + d5 + 1536) : tensor<2x?x2304xf16, #sym.shape<[2, s0, 2304]>> -> f16
    kernel.yield %a : f16
  } bias {
  } : tensor<2x?x12x64xf16, #sym.shape<[2, s0, 12, 64]>>
  kernel.return %o : tensor<2x?x12x64xf16, #sym.shape<[2, s0, 12, 64]>>
}
}

// -----

// A mask is read, two neighbours a register, while scores are computed; of the last block's keys, which are compared, none behind
// the last. 256 features and a bias leave registers for 32 keys at a time.
// CHECK-LABEL: llvm.func @masked_sm_90a(
// CHECK-SAME: cuda.grid = #sym.expr<64>
// CHECK: nvvm.shfl.sync idx
// CHECK: nvvm.setmaxregister increase 232
// CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 32, k = 16>
// CHECK: arith.minsi
// CHECK: nvvm.wgmma.wait.group.sync.aligned 0
// CHECK: arith.select
// CHECK: scf.for
// CHECK: cuda.register_product = {columns = 256 : i64, half = false, turned = true}
// CHECK-NOT: arith.minsi
// CHECK-COUNT-8: vector.from_elements %{{.*}}, %{{.*}} : vector<2xbf16>
// CHECK: nvvm.wgmma.wait.group.sync.aligned 1
// CHECK: arith.shli %{{.*}}, %c16_i32
// CHECK: math.fma
// CHECK: llvm.return
kernel.func @masked(%q: tensor<2x4x1000x256xbf16>, %k: tensor<2x4x1000x256xbf16>, %mask: tensor<2x1x1000x1000xi1>) -> tensor<2x4x1000x256xbf16> attributes {aligned} {
  %o = kernel.attention batch [2, 4] m <1000> n <1000> d <256> dv <256> scale 0.125 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4) : tensor<2x4x1000x256xbf16> -> bf16
    kernel.yield %a : bf16
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d4) : tensor<2x4x1000x256xbf16> -> bf16
    kernel.yield %a : bf16
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d5) : tensor<2x4x1000x256xbf16> -> bf16
    kernel.yield %a : bf16
  } bias {
    %none = arith.constant 0xFF80 : bf16
    %zero = arith.constant 0.0 : bf16
    %a = kernel.read %mask (d0, d1, d2, d3, d4, d5) -> (d0, 0, d2, d3) : tensor<2x1x1000x1000xi1> -> i1
    %b = arith.select %a, %zero, %none : bf16
    kernel.yield %b : bf16
  } : tensor<2x4x1000x256xbf16>
  kernel.return %o : tensor<2x4x1000x256xbf16>
}

// -----

// expected-error @+1 {{stages = 8, of which shared memory has room for 4}}
kernel.func @wrong(%x: tensor<2x512x64xf16>) -> tensor<2x512x64xf16>
    attributes {aligned, cuda.variant_of = @other, schedule = #cuda.wgmma_attention<consumers = 2, keys = 256, stages = 8, cached = 33554432, ordered = true>, launch = #kernel.launch<grid = <8>, threads = 384>} {
  %o = kernel.attention batch [2] m <512> n <512> d <64> dv <64> scale 0.125 q {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x512x64xf16> -> f16
    kernel.yield %a : f16
  } k {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x512x64xf16> -> f16
    kernel.yield %a : f16
  } v {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x512x64xf16> -> f16
    kernel.yield %a : f16
  } bias {
  } : tensor<2x512x64xf16>
  kernel.return %o : tensor<2x512x64xf16>
}
