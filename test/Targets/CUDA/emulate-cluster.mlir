// RUN: kiln-opt %s --cuda-emulate | FileCheck %s

// Blocks that run together: the emulator is told how many, and of every instruction by which one reaches another.
// CHECK-LABEL: llvm.func @pair(
// CHECK-NOT: nvvm
// CHECK: %[[RANK:.*]] = llvm.call @kiln_emulator_rank() : () -> i32
// CHECK: llvm.call @kiln_emulator_fence_mbarrier_init() : () -> ()
// CHECK: llvm.call @kiln_emulator_cluster_arrive() : () -> ()
// CHECK: llvm.call @kiln_emulator_cluster_wait() : () -> ()
// CHECK: %[[MAPPED:.*]] = llvm.call @kiln_emulator_map_shared(%{{.*}}, %[[RANK]]) : (!llvm.ptr, i32) -> !llvm.ptr
// CHECK: llvm.call @kiln_emulator_mbarrier_arrive
// CHECK: %[[MASK:.*]] = llvm.zext %{{.*}} : i16 to i32
// CHECK: llvm.call @kiln_emulator_multicast_tensor(%{{.*}}, %{{.*}}, %{{.*}}, %[[MASK]], %{{.*}}, %{{.*}}) : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i32, i32, i32, i32, i32, i32, i32) -> ()
// CHECK: @pair_parameters(1 : i64)
// CHECK: @pair_maps(1 : i64)
// CHECK: @pair_cluster(2 : i64)
llvm.mlir.global external @kiln_shared() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
llvm.func @pair(%error: !llvm.ptr, %map: !llvm.ptr) attributes {cuda.buffers = [], cuda.maps = [{}], cuda.symbols = [], nvvm.cluster_dim = array<i32: 2, 1, 1>, nvvm.kernel, nvvm.maxntid = array<i32: 128>} {
  %base = llvm.mlir.addressof @kiln_shared : !llvm.ptr<3>
  %shared = llvm.addrspacecast %base : !llvm.ptr<3> to !llvm.ptr
  %barrier = llvm.addrspacecast %shared : !llvm.ptr to !llvm.ptr<3>
  %rank = nvvm.read.ptx.sreg.cluster.ctarank : i32
  nvvm.fence.mbarrier.init
  nvvm.cluster.arrive
  nvvm.cluster.wait
  %there = nvvm.mapa %barrier, %rank : !llvm.ptr<3> -> !llvm.ptr<7>
  nvvm.mbarrier.arrive %there : !llvm.ptr<7>
  %mask = llvm.mlir.constant(3 : i16) : i16
  %zero = llvm.mlir.constant(0 : i32) : i32
  nvvm.cp.async.bulk.tensor.shared.cluster.global %there, %map, %barrier, box[%zero, %zero] multicast_mask = %mask : !llvm.ptr<7>, !llvm.ptr
  llvm.return
}
