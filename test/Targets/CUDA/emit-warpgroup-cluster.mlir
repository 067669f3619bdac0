// RUN: kiln-opt %s --cuda-emit-kernels --canonicalize --cse --split-input-file | FileCheck %s

// Two blocks with tiles below each other share the columns that both need: each copies its own rows, and half of the columns to both. A
// place is told of all the bytes that come to its block. It is empty when eight warps of both blocks have let go of it: a warp's first two
// lanes tell one block each. Blocks meet when the barriers have been made, which others are to see, and before they end.
// CHECK-LABEL: llvm.func @columns(
// CHECK-SAME: cuda.maps = [{box = array<i64: 64, 128>, buffer = 0 : i64
// CHECK-SAME: {box = array<i64: 64, 128>, buffer = 1 : i64
// CHECK-SAME: nvvm.cluster_dim = array<i32: 2, 1, 1>
// CHECK-DAG: %[[BOTH:.*]] = arith.constant 3 : i16
// CHECK-DAG: %[[ARRIVALS:.*]] = arith.constant 16 : i32
// CHECK: %[[RANK:.*]] = nvvm.read.ptx.sreg.cluster.ctarank : i32
// CHECK: nvvm.mbarrier.init
// CHECK: nvvm.fence.proxy
// CHECK-NEXT: nvvm.fence.mbarrier.init
// CHECK: nvvm.mbarrier.init %{{.*}}, %[[ARRIVALS]]
// CHECK: nvvm.fence.mbarrier.init
// CHECK-NOT: nvvm.barrier0
// CHECK: nvvm.cluster.arrive.relaxed
// CHECK-NEXT: nvvm.cluster.wait
// CHECK: nvvm.setmaxregister decrease
// CHECK: nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c49152_i32
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK-NOT: multicast_mask
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}} multicast_mask = %[[BOTH]]
// CHECK-NOT: nvvm.cp.async.bulk
// CHECK: nvvm.setmaxregister increase
// CHECK: %[[OTHERS:.*]] = nvvm.mapa %{{.*}}, %{{.*}} : !llvm.ptr<3> -> !llvm.ptr<7>
// CHECK: nvvm.wgmma.wait.group.sync.aligned
// CHECK: scf.if
// CHECK: %[[EMPTY:.*]] = llvm.getelementptr %[[OTHERS]]
// CHECK-NEXT: nvvm.mbarrier.arrive %[[EMPTY]] : !llvm.ptr<7>
// CHECK: nvvm.cluster.arrive{{$}}
// CHECK-NEXT: nvvm.cluster.wait
// CHECK-NEXT: llvm.return
kernel.func @columns(%x: tensor<2000x64xbf16>, %w: tensor<2048x64xbf16>) -> tensor<2000x2048xbf16> attributes {aligned, cuda.variant_of = @base, launch = #kernel.launch<grid = <128>, threads = 384>, schedule = #cuda.wgmma<m = 128, n = 256, stages = 4, registers = [56, 224], cluster = [2, 1], sharing = [4, 2]>} {
  %y = kernel.contract batch [] m [2000] n [2048] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2000x64xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x64xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<2000x2048xbf16>
  kernel.return %y : tensor<2000x2048xbf16>
}

// -----

// Tiles beside each other have their rows in common: here neighbours in memory, a box of 64 for each block.
// CHECK-LABEL: llvm.func @rows(
// CHECK-SAME: cuda.maps = [{box = array<i64: 64, 64>, buffer = 0 : i64
// CHECK-SAME: {box = array<i64: 64, 64>, buffer = 1 : i64
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}} multicast_mask = %{{.*}}
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK-NOT: multicast_mask
// CHECK: llvm.return
kernel.func @rows(%x: tensor<64x2048xf16>, %w: tensor<2048x64xf16>) -> tensor<2048x2048xf16> attributes {aligned, cuda.variant_of = @base, launch = #kernel.launch<grid = <512>, threads = 384>, schedule = #cuda.wgmma<m = 128, n = 64, stages = 4, registers = [56, 224], cluster = [1, 2], sharing = [4, 2]>} {
  %y = kernel.contract batch [] m [2048] n [2048] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<64x2048xf16> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x64xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to f16
    kernel.yield %s : f16
  } : tensor<2048x2048xf16>
  kernel.return %y : tensor<2048x2048xf16>
}

// -----

// A block by itself reaches for no other.
// CHECK-LABEL: llvm.func @alone(
// CHECK-NOT: cluster_dim
// CHECK-NOT: fence.mbarrier.init
// CHECK: nvvm.barrier0
// CHECK-NOT: multicast_mask
// CHECK-NOT: nvvm.mapa
// CHECK-NOT: nvvm.cluster
// CHECK: llvm.return
kernel.func @alone(%x: tensor<2000x64xbf16>, %w: tensor<2048x64xbf16>) -> tensor<2000x2048xbf16> attributes {aligned, cuda.variant_of = @base, launch = #kernel.launch<grid = <128>, threads = 384>, schedule = #cuda.wgmma<m = 128, n = 256, stages = 4, registers = [56, 224], sharing = [4, 2]>} {
  %y = kernel.contract batch [] m [2000] n [2048] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2000x64xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x64xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<2000x2048xbf16>
  kernel.return %y : tensor<2000x2048xbf16>
}
