// RUN: kiln-opt %s --cuda-choose-schedule --cuda-emit-kernels | FileCheck %s

// Rows that each block doubles for itself, two products, and one that reads what the first one writes.
// CHECK-NOT: llvm.func @double
// CHECK-LABEL: llvm.func @group(
// CHECK-SAME: %[[X:[a-z0-9]+]]: !llvm.ptr, %[[W:[a-z0-9]+]]: !llvm.ptr, %[[P:[a-z0-9]+]]: !llvm.ptr, %[[Q:[a-z0-9]+]]: !llvm.ptr, %[[R:[a-z0-9]+]]: !llvm.ptr
// CHECK: %[[NUMBER:.*]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK-NEXT: %[[BLOCK:.*]] = arith.extui %[[NUMBER]]
// CHECK: nvvm.griddepcontrol wait
// CHECK: llvm.mlir.addressof @kiln_shared
// CHECK: %[[OWN:.*]] = llvm.getelementptr
// CHECK: llvm.getelementptr %[[X]][
// CHECK: %[[TWICE:.*]] = llvm.getelementptr %[[OWN]][
// CHECK-NEXT: llvm.store %{{.*}}, %[[TWICE]]
// CHECK: nvvm.barrier0
// The first eight blocks are the first and the third product's, the others the second one's.
// CHECK: %[[EIGHT:.*]] = arith.constant 8 : i64
// CHECK-NEXT: %[[FIRST:.*]] = arith.cmpi slt, %[[BLOCK]], %[[EIGHT]]
// CHECK-NEXT: %[[REST:.*]] = arith.subi %[[BLOCK]], %[[EIGHT]]
// CHECK-NEXT: scf.if %[[FIRST]] {
// CHECK: llvm.getelementptr %[[OWN]][
// CHECK: %[[DONE:.*]] = llvm.getelementptr %[[P]][
// CHECK-NEXT: llvm.store %{{.*}}, %[[DONE]]
// CHECK: %[[WANTED:.*]] = llvm.getelementptr %[[P]][
// CHECK-NEXT: llvm.load %[[WANTED]]
// CHECK: %[[LAST:.*]] = llvm.getelementptr %[[R]][
// CHECK-NEXT: llvm.store %{{.*}}, %[[LAST]]
// CHECK: } else {
// CHECK: arith.muli %[[REST]]
// CHECK: %[[OTHER:.*]] = llvm.getelementptr %[[Q]][
// CHECK-NEXT: llvm.store %{{.*}}, %[[OTHER]]
// CHECK: llvm.return
kernel.func private @double(%x: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %0 = kernel.map {
    %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<1x64xf32> -> f32
    %s = arith.addf %e, %e : f32
    kernel.yield %s : f32
  } : tensor<1x64xf32>
  kernel.return %0 : tensor<1x64xf32>
}
kernel.func private @product(%x: tensor<1x64xf32>, %w: tensor<64x64xf32>, %y: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %0 = kernel.contract batch [] m [1] n [64] k [64] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x64xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    %e = kernel.read %y (d0, d1, d2) -> (d0, d1) : tensor<1x64xf32> -> f32
    %v = arith.addf %sum, %e : f32
    kernel.yield %v : f32
  } : tensor<1x64xf32>
  kernel.return %0 : tensor<1x64xf32>
}
kernel.func @group(%x: tensor<1x64xf32>, %w: tensor<64x64xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x64xf32>) {
  %d = kernel.call @double(%x) : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %0 = kernel.call @product(%d, %w, %x) : (tensor<1x64xf32>, tensor<64x64xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
  %1 = kernel.call @product(%x, %w, %x) : (tensor<1x64xf32>, tensor<64x64xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
  %2 = kernel.call @product(%d, %w, %0) : (tensor<1x64xf32>, tensor<64x64xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
  kernel.return %0, %1, %2 : tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x64xf32>
}
