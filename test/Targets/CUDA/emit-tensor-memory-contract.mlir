// RUN: kiln-opt %s --cuda-choose-schedule --cuda-specialize-kernels=architectures=100 --cuda-emit-kernels --canonicalize --cse --split-input-file | FileCheck %s

// One thread copies, and one of each of two warpgroups asks for products, four a step, whose sums are in columns of tensor memory, which
// the first warp allocates. Places are let go of by the products themselves; behind a tile's last ones its warpgroup is told.
// CHECK-LABEL: llvm.func @product_sm_100a(
// CHECK-SAME: cuda.architecture = 100 : i64
// CHECK-SAME: cuda.grid = #sym.expr<128>
// CHECK-SAME: {box = array<i64: 64, 128>, buffer = 0 : i64
// CHECK-SAME: {box = array<i64: 64, 256>, buffer = 1 : i64
// CHECK-SAME: cuda.variant_of = @product
// CHECK-NOT: cuda.workspace
// CHECK: nvvm.tcgen05.alloc %{{.*}}, %c512_i32
// CHECK: nvvm.tcgen05.relinquish_alloc_permit
// CHECK: nvvm.tcgen05.fence <before>
// CHECK-COUNT-14: nvvm.mbarrier.init
// CHECK-NOT: nvvm.mbarrier.init
// CHECK: nvvm.barrier0
// CHECK: nvvm.tcgen05.fence <after>
// CHECK: nvvm.setmaxregister decrease 56
// CHECK: nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c49152_i32
// CHECK: nvvm.cp.async.bulk.tensor
// CHECK: nvvm.cp.async.bulk.tensor
// CHECK: } else {
// CHECK: nvvm.setmaxregister increase 224
// CHECK: scf.for
// CHECK: scf.if
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK-NEXT: nvvm.tcgen05.fence <after>
// CHECK: nvvm.elect.sync
// 128 x 256, bf16, both operands along steps.
// CHECK-COUNT-4: nvvm.tcgen05.mma %{{.*}}, %{{.*}}, %{{.*}}, %c138413200_i32, %{{.*}} {ctaGroup = #nvvm.cta_group<cta_1>, kind = #nvvm.tcgen05_mma_kind<f16>}
// CHECK: nvvm.tcgen05.commit
// CHECK: nvvm.tcgen05.commit
// CHECK: nvvm.mbarrier.arrive
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.tcgen05.fence <after>
// CHECK: scf.for
// CHECK: llvm.inline_asm has_side_effects {cuda.tensor_load} "tcgen05.ld.sync.aligned.16x256b.x32.b32 {{.*}}; tcgen05.wait::ld.sync.aligned;"
// CHECK: nvvm.tcgen05.fence <before>
// CHECK: nvvm.bar.warp.sync
// CHECK: nvvm.mbarrier.arrive
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<8xbf16>
// CHECK: nvvm.tcgen05.fence <before>
// CHECK: nvvm.barrier0
// CHECK: nvvm.tcgen05.fence <after>
// CHECK: nvvm.tcgen05.dealloc %{{.*}}, %c512_i32
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

// Rows of a step side by side, of f16, and 192 columns, which are loaded as 128 and 64.
// CHECK-LABEL: llvm.func @turned_sm_100a(
// CHECK: nvvm.tcgen05.alloc %{{.*}}, %c512_i32
// CHECK: nvvm.tcgen05.mma %{{.*}}, %{{.*}}, %{{.*}}, %c137461776_i32
// CHECK: tcgen05.ld.sync.aligned.16x256b.x16.b32
// CHECK: tcgen05.ld.sync.aligned.16x256b.x8.b32
// CHECK: nvvm.tcgen05.dealloc
kernel.func @turned(%x: tensor<512x1024xf16>, %w: tensor<512x768xf16>) -> tensor<1024x768xf32>
    attributes {aligned, cuda.variant_schedule = #cuda.tcgen05<n = 192, stages = 3>} {
  %y = kernel.contract batch [] m [1024] n [768] k [512] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<512x1024xf16> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<512x768xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1024x768xf32>
  kernel.return %y : tensor<1024x768xf32>
}
