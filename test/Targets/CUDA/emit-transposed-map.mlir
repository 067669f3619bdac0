// RUN: kiln-opt %s --cuda-choose-schedule --cuda-emit-kernels --canonicalize --cse --split-input-file | FileCheck %s

// A thread reads four neighbours of a line and puts them, together, where chunks of 16 bytes have changed places by the number of
// the line; it takes the same place of four lines, 128 bytes apart, and writes four neighbours of the result.
// CHECK-LABEL: llvm.func @transpose(
// CHECK-SAME: cuda.shared = 4096 : i64
// CHECK-DAG: %[[THREAD:.*]] = arith.extui %{{.*}} : i32 to i64
// CHECK-COUNT-4: llvm.load {{.*}} : !llvm.ptr -> f32
// CHECK-NOT: llvm.load
// CHECK: %[[LANE:.*]] = arith.divui %{{.*}}, %c32_i64 : i64
// CHECK: %[[KEY:.*]] = arith.muli %[[LANE]], %c16_i64 : i64
// CHECK: %[[PLACE:.*]] = arith.xori %{{.*}}, %[[KEY]] : i64
// CHECK: %[[TO:.*]] = llvm.getelementptr %{{.*}}[%[[PLACE]]] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK: llvm.store %{{.*}}, %[[TO]] {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr
// CHECK-NEXT: nvvm.barrier0
// CHECK-NOT: scf.if
// CHECK: arith.xori
// CHECK: %[[FROM:.*]] = llvm.getelementptr
// CHECK-NEXT: llvm.load %[[FROM]] {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NEXT: %[[NEXT:.*]] = llvm.getelementptr %[[FROM]][128]
// CHECK-NEXT: llvm.load %[[NEXT]]
// CHECK-NEXT: llvm.getelementptr %[[FROM]][256]
// CHECK-NEXT: llvm.load
// CHECK-NEXT: llvm.getelementptr %[[FROM]][384]
// CHECK-NEXT: llvm.load
// CHECK-COUNT-4: math.absf
// CHECK-COUNT-4: llvm.store
// CHECK-NOT: llvm.store
kernel.func @transpose(%x: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {aligned, schedule = #cuda.transposed_map<threads = 256, read = 32, written = 32, vector = 4>} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<64x64xf32> -> f32
    %n = math.absf %a : f32
    kernel.yield %n : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

// A tile at an edge is asked for its elements one by one; the others are not, and read what comes as it is before the barrier.
// CHECK-LABEL: llvm.func @edges(
// CHECK-SAME: %[[X:[^:]*]]: !llvm.ptr, %[[Z:[^:]*]]: !llvm.ptr, %[[Y:[^:]*]]: !llvm.ptr
// CHECK: %[[WHOLE:.*]] = arith.cmpi slt
// CHECK: scf.if %[[WHOLE]] {
// CHECK-NOT: scf.if
// CHECK: llvm.getelementptr %[[X]][
// CHECK: llvm.getelementptr %[[Z]][
// CHECK: nvvm.barrier0
// CHECK: llvm.getelementptr %[[Y]][
// CHECK: scf.if {{.*}} {
// CHECK: scf.if {{.*}} -> (i8) {
// CHECK: llvm.getelementptr %[[X]][
// CHECK: nvvm.barrier0
// CHECK: scf.if {{.*}} {
// CHECK: llvm.getelementptr %[[Z]][
// CHECK: llvm.getelementptr %[[Y]][
kernel.func @edges(%x: tensor<70x?xi8, #sym.shape<[70, 16*s0]>>, %z: tensor<?x70xi8, #sym.shape<[16*s0, 70]>>) -> tensor<?x70xi8, #sym.shape<[16*s0, 70]>> attributes {schedule = #cuda.transposed_map<threads = 256, read = 16, written = 16>} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<70x?xi8, #sym.shape<[70, 16*s0]>> -> i8
    %b = kernel.read %z (d0, d1) -> (d0, d1) : tensor<?x70xi8, #sym.shape<[16*s0, 70]>> -> i8
    %c = arith.addi %a, %b : i8
    kernel.yield %c : i8
  } : tensor<?x70xi8, #sym.shape<[16*s0, 70]>>
  kernel.return %y : tensor<?x70xi8, #sym.shape<[16*s0, 70]>>
}

// -----

// Outside of what is padded, nothing is read.
// CHECK-LABEL: llvm.func @padded(
// CHECK: %[[INSIDE:.*]] = arith.cmpi
// CHECK: scf.if %{{.*}} -> (f32) {
// CHECK: llvm.load
// CHECK: } else {
// CHECK: scf.yield %{{.*}} : f32
// CHECK: nvvm.barrier0
kernel.func @padded(%x: tensor<60x64xf32>) -> tensor<64x64xf32> attributes {schedule = #cuda.transposed_map<threads = 1024, read = 64, written = 64>} {
  %y = kernel.map {
    %two = arith.constant 2.0 : f32
    %in = kernel.inside (d0, d1) -> (d1) bounds [60]
    %a = kernel.read %x (d0, d1) -> (d1, d0) if %in else(%two : f32) : tensor<60x64xf32> -> f32
    kernel.yield %a : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}
