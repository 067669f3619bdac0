// RUN: kiln-opt %s --cuda-choose-schedule --cuda-specialize-kernels --cuda-emit-kernels --canonicalize --cse --split-input-file --verify-diagnostics | FileCheck %s

// One thread copies, two warpgroups multiply: 64 x 256 elements each, four products a step. There are two barriers for each of four
// places; the copies' is told how many bytes come.
// CHECK-LABEL: llvm.func @product_sm_90a(
// CHECK-SAME: %[[LEFT:[a-z0-9]+]]: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>, nvvm.grid_constant}
// CHECK-SAME: %[[RIGHT:[a-z0-9]+]]: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>, nvvm.grid_constant}
// CHECK-SAME: cuda.grid = #sym.expr<256>
// CHECK-SAME: {box = array<i64: 64, 128>, buffer = 0 : i64, bytes = 2 : i64, numbers = [#sym.expr<0>, #sym.expr<1024>, #sym.expr<2048>, #sym.expr<1024>]}
// CHECK-SAME: {box = array<i64: 64, 128>, buffer = 1 : i64
// CHECK-SAME: cuda.shared = 229504
// CHECK-SAME: cuda.variant_of = @product
// CHECK-SAME: cuda.workspace = 131072
// CHECK-SAME: nvvm.maxntid = array<i32: 384>, nvvm.minctasm = 1 : i32
// CHECK: scf.if
// CHECK: "prefetch.tensormap [$0];", "l" %[[LEFT]]
// CHECK: scf.if
// CHECK: "prefetch.tensormap [$0];", "l" %[[RIGHT]]
// CHECK: scf.if
// CHECK-COUNT-8: nvvm.mbarrier.init
// CHECK-NOT: nvvm.mbarrier.init
// CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CHECK: nvvm.cluster.wait
// CHECK: nvvm.setmaxregister decrease 56
// CHECK: scf.for
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c49152_i32
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[LEFT]], %{{.*}}, box[%{{.*}}, %{{.*}}]
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[RIGHT]], %{{.*}}, box[%{{.*}}, %{{.*}}]
// CHECK: } else {
// CHECK: nvvm.setmaxregister increase 224
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.wgmma.fence.aligned
// CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 256, k = 16>, D[<f32>, <zero>], A[<bf16>, <one>, <row>], B[<bf16>, <one>, <col>]
// CHECK-COUNT-3: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.wgmma.fence.aligned
// CHECK-COUNT-4: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK: nvvm.wgmma.wait.group.sync.aligned 1
// CHECK: nvvm.mbarrier.arrive
// CHECK: nvvm.wgmma.wait.group.sync.aligned 0
// CHECK: nvvm.mbarrier.arrive
// CHECK: llvm.inline_asm has_side_effects "mov.u32 $0, %tid.x;"
// A block that has a tile's last steps, but not its first, adds what those of lower numbers have left, warp by warp. Each lane waits for one of them.
// CHECK: scf.if
// CHECK: llvm.inline_asm has_side_effects {cuda.wait_flag} "{{.*}}ld.acquire.gpu.b32 value, [$0];{{.*}}@waits bra AGAIN; }", "l,~{memory}"
// CHECK: nvvm.bar.warp.sync
// CHECK: llvm.store %c0_i32, {{.*}} {alignment = 4 : i64} : i32
// CHECK: scf.for
// CHECK: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// A warp exchanges 64 columns of its rows at a time, and writes 16 bytes of a row a lane.
// CHECK-COUNT-16: llvm.store {{.*}} {alignment = 4 : i64} : vector<2xbf16>
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<8xbf16>
// CHECK-COUNT-4: llvm.store {{.*}} {alignment = 16 : i64} : vector<8xbf16>
// CHECK: llvm.store {{.*}} {alignment = 4 : i64} : vector<2xbf16>
// CHECK: } else {
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>
// CHECK: nvvm.bar.warp.sync
// CHECK: llvm.inline_asm has_side_effects {cuda.raise_flag} "st.release.gpu.b32 [$0], 1;", "l,~{memory}"
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

// -----

// With few steps the warpgroups that multiply have tiles of their own, in turns: each waits for the other to have what it needs. The
// epilogue reads an element for each sum: what is exchanged are the sums, of which a lane then has eight of a row.
// CHECK-LABEL: llvm.func @turns_sm_90a(
// CHECK: nvvm.setmaxregister increase
// CHECK: scf.for {{.*}} step %c2_i32
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK-COUNT-4: nvvm.wgmma.mma_async
// CHECK: nvvm.mbarrier.arrive
// CHECK: nvvm.wgmma.wait.group.sync.aligned 0
// CHECK: nvvm.mbarrier.arrive
// CHECK-COUNT-8: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<8xi16>
// CHECK-NOT: llvm.load {{.*}} : !llvm.ptr -> i16
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<8xbf16>
kernel.func @turns(%x: tensor<4096x64xbf16>, %w: tensor<4096x64xbf16>, %r: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> attributes {aligned} {
  %y = kernel.contract batch [] m [4096] n [4096] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4096x64xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4096x64xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %r0 = kernel.read %r (d0, d1, d2) -> (d0, d1) : tensor<4096x4096xbf16> -> bf16
    %r1 = arith.extf %r0 : bf16 to f32
    %t = arith.addf %sum, %r1 : f32
    %s = arith.truncf %t : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<4096x4096xbf16>
  kernel.return %y : tensor<4096x4096xbf16>
}

// -----

// Rows and columns that are neighbours in memory come in boxes of 64, and the tensor cores turn them round. The batch is a dim of the
// left tensor alone; sizes are what the symbols say.
// CHECK-LABEL: llvm.func @turned_sm_90a(
// CHECK-SAME: {box = array<i64: 64, 64, 1>, buffer = 0 : i64, bytes = 2 : i64, numbers = [#sym.expr<0>, #sym.expr<512>, #sym.expr<s0>, #sym.expr<3>, #sym.expr<512>, #sym.expr<512*s0>]}
// CHECK-SAME: {box = array<i64: 64, 64>, buffer = 1 : i64, bytes = 2 : i64, numbers = [#sym.expr<0>, #sym.expr<1024>, #sym.expr<s0>, #sym.expr<1024>]}
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}box[%{{.*}}, %{{.*}}, %{{.*}}]
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}box[%{{.*}}, %{{.*}}]
// CHECK: nvvm.wgmma.mma_async {{.*}}A[<f16>, <one>, <col>], B[<f16>, <one>, <row>]
module attributes {sym.symbols = {s0 = {min = 1, max = 1000000}}} {
kernel.func @turned(%x: tensor<3x?x512xf16, #sym.shape<[3, s0, 512]>>, %w: tensor<?x1024xf16, #sym.shape<[s0, 1024]>>) -> tensor<3x512x1024xf16> attributes {aligned} {
  %y = kernel.contract batch [3] m [512] n [1024] k [s0] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d3, d1) : tensor<3x?x512xf16, #sym.shape<[3, s0, 512]>> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %w (d0, d1, d2, d3) -> (d3, d2) : tensor<?x1024xf16, #sym.shape<[s0, 1024]>> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to f16
    kernel.yield %s : f16
  } : tensor<3x512x1024xf16>
  kernel.return %y : tensor<3x512x1024xf16>
}
}

// -----

// expected-error @+1 {{stages = 8, of which shared memory has room for 4}}
kernel.func @wrong(%x: tensor<2048x1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xf32>
    attributes {aligned, cuda.variant_of = @other, schedule = #cuda.wgmma<m = 128, n = 256, stages = 8, sharing = [4, 2]>, launch = #kernel.launch<grid = <256>, threads = 384>} {
  %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<2048x2048xf32>
  kernel.return %y : tensor<2048x2048xf32>
}

// -----

// Rows that overlap in memory (windows) are none either, those with gaps between them are.
// CHECK-LABEL: llvm.func @windows_sm_90a(
// CHECK-SAME: cuda.maps = [{box = array<i64: 64, {{[0-9]+}}>, buffer = 1 : i64
// CHECK-SAME: cuda.shared
// CHECK: nvvm.cp.async.shared.global
kernel.func @windows(%x: tensor<514x64xbf16>, %w: tensor<2048x256xbf16>) -> tensor<512x2048xbf16> attributes {aligned} {
  %y = kernel.contract batch [] m [512] n [2048] k [3, 64] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0 + d2, d3) : tensor<514x64xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2, d3) -> (d1, d2 * 64 + d3) : tensor<2048x256xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<512x2048xbf16>
  kernel.return %y : tensor<512x2048xbf16>
}

// -----

// Rows that are one in memory (an expanded tensor) are no lines of a tensor map: threads copy them.
// CHECK-LABEL: llvm.func @expanded_sm_90a(
// CHECK-SAME: cuda.maps = [{box = array<i64: 64, {{[0-9]+}}>, buffer = 1 : i64
// CHECK-SAME: cuda.shared
// CHECK: nvvm.cp.async.shared.global
kernel.func @expanded(%x: tensor<1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<512x2048xbf16> attributes {aligned} {
  %y = kernel.contract batch [] m [512] n [2048] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2) : tensor<1024xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<512x2048xbf16>
  kernel.return %y : tensor<512x2048xbf16>
}
