// RUN: kiln-opt %s --cuda-choose-schedule --cuda-specialize-kernels --cuda-emit-kernels --canonicalize --cse | FileCheck %s
// RUN: kiln-opt %s --cuda-choose-schedule --cuda-specialize-kernels=architectures=100 --cuda-emit-kernels --canonicalize --cse | FileCheck %s --check-prefix=BLACKWELL

// A line of a box is 128 steps. Sums are i32, of which lanes write four neighbours; blocks add those that others leave as integers.
// CHECK-LABEL: llvm.func @bytes_sm_90a(
// CHECK-SAME: {box = array<i64: 128, 128>, buffer = 0 : i64, bytes = 1 : i64
// CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = {{[0-9]+}}, k = 32>, D[<s32>, <zero>], A[<s8>, <one>, <row>], B[<s8>, <one>, <col>]
// CHECK-COUNT-3: nvvm.wgmma.mma_async {{.*}}D[<s32>, <one>]
// CHECK-NOT: arith.addf
// CHECK: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xi32>
// CHECK: arith.addi
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>
// CHECK: llvm.return
// BLACKWELL-LABEL: llvm.func @bytes_sm_100a(
// BLACKWELL-COUNT-4: nvvm.tcgen05.mma {{.*}}kind = #nvvm.tcgen05_mma_kind<i8>
// BLACKWELL: tcgen05.ld.sync.aligned.16x256b{{.*}}=r,=r,
kernel.func @bytes(%x: tensor<2048x1024xi8>, %w: tensor<2048x1024xi8>) -> tensor<2048x2048xi32> attributes {aligned} {
  %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xi8> -> i8
    kernel.yield %a : i8
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xi8> -> i8
    kernel.yield %a : i8
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<2048x2048xi32>
  kernel.return %y : tensor<2048x2048xi32>
}

// Floats of eight bits are f16 for GPUs whose tensor cores do not know them. Hopper's sum up a step, and the steps are added in f32.
// CHECK-LABEL: llvm.func @floats(
// CHECK: nvvm.mma.sync {{.*}}f16
// CHECK-LABEL: llvm.func @floats_sm_90a(
// CHECK-SAME: {box = array<i64: 128, 128>, buffer = 0 : i64, bytes = 1 : i64
// CHECK: nvvm.wgmma.mma_async {{.*}}k = 32>, D[<f32>, <zero>], A[<e5m2>, <one>, <row>], B[<e5m2>, <one>, <col>]
// CHECK-COUNT-3: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
// CHECK: nvvm.wgmma.wait.group.sync.aligned 0
// CHECK: nvvm.mbarrier.arrive
// CHECK: arith.addf
// CHECK: llvm.return
// BLACKWELL-LABEL: llvm.func @floats_sm_100a(
// BLACKWELL-COUNT-4: nvvm.tcgen05.mma {{.*}}kind = #nvvm.tcgen05_mma_kind<f8f6f4>
// BLACKWELL-NOT: arith.addf
kernel.func @floats(%x: tensor<2048x1024xi8>, %w: tensor<2048x1024xi8>) -> tensor<2048x2048xf32> attributes {aligned} {
  %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xi8> -> i8
    %c = arith.constant 8 : i16
    %b = arith.extui %a : i8 to i16
    %s = arith.shli %b, %c : i16
    %f = arith.bitcast %s : i16 to f16
    kernel.yield %f : f16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xi8> -> i8
    %c = arith.constant 8 : i16
    %b = arith.extui %a : i8 to i16
    %s = arith.shli %b, %c : i16
    %f = arith.bitcast %s : i16 to f16
    kernel.yield %f : f16
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<2048x2048xf32>
  kernel.return %y : tensor<2048x2048xf32>
}
