// RUN: kiln-opt %s --cuda-choose-schedule --cuda-emit-kernels --canonicalize --cse --split-input-file | FileCheck %s

// CHECK: llvm.mlir.global external @kiln_shared() {addr_space = 3 : i32, alignment = 1024 : i64, dso_local} : !llvm.array<0 x i8>

// A thread computes the element of its number, if there is one.
// CHECK-LABEL: llvm.func @double(
// CHECK-SAME: %[[X:.*]]: !llvm.ptr, %[[Y:.*]]: !llvm.ptr, %[[S0:.*]]: i64, %{{.*}}: !llvm.ptr)
// CHECK-SAME: cuda.buffers = [#sym.expr<4*s0>, #sym.expr<4*s0>], cuda.shared = 0 : i64, cuda.symbols = ["s0"]
// CHECK-SAME: nvvm.kernel, nvvm.maxntid = array<i32: 256>
// CHECK: nvvm.read.ptx.sreg.tid.x
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK: %[[I:.*]] = arith.addi
// CHECK: %[[INSIDE:.*]] = arith.cmpi slt, %[[I]], %[[S0]]
// CHECK: scf.if %[[INSIDE]]
// CHECK: %[[AT:.*]] = llvm.getelementptr %[[X]][%[[I]]]
// CHECK: llvm.load %[[AT]]
// CHECK: llvm.store
kernel.func @double(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<?xf32, #sym.shape<[s0]>> -> f32
    %s = arith.addf %a, %a : f32
    kernel.yield %s : f32
  } : tensor<?xf32, #sym.shape<[s0]>>
  kernel.return %y : tensor<?xf32, #sym.shape<[s0]>>
}

// -----

// The warps of a block add up what their lanes have, then each other's sums; the first thread writes. Nothing is read before the
// kernels in front of this one have ended.
// CHECK-LABEL: llvm.func @row_sums(
// CHECK-SAME: cuda.shared = 32 : i64
// CHECK: llvm.mlir.addressof @kiln_shared : !llvm.ptr<3>
// CHECK-NOT: llvm.load
// CHECK: nvvm.griddepcontrol wait
// CHECK-NOT: scf.for
// CHECK-COUNT-3: llvm.load
// CHECK-NOT: llvm.load
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK: scf.if
// CHECK: llvm.store
// CHECK: nvvm.barrier0
// CHECK-NOT: nvvm.barrier0
// CHECK: llvm.load
// CHECK-COUNT-3: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.shfl
// CHECK: scf.if
// CHECK: llvm.store
kernel.func @row_sums(%x: tensor<8x768xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [768] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// -----

// An index that comes from data stays inside, and says so where it did not.
// CHECK-LABEL: llvm.func @take(
// CHECK-SAME: %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %[[ERROR:.*]]: !llvm.ptr)
// CHECK: arith.cmpi uge
// CHECK: scf.if
// CHECK: llvm.store %{{.*}}, %[[ERROR]] : i32
kernel.func @take(%x: tensor<100xf32>, %i: tensor<32xi64>) -> tensor<32xf32> {
  %y = kernel.map {
    %at = kernel.read %i (d0) -> (d0) : tensor<32xi64> -> i64
    %a = kernel.read %x (d0, d1) -> (d1) values(%at) : tensor<100xf32> -> f32
    kernel.yield %a : f32
  } : tensor<32xf32>
  kernel.return %y : tensor<32xf32>
}

// -----

// What a thread has read of its row for the sum it does not read again: 23 elements, of which a warp's lanes have one each.
// CHECK-LABEL: llvm.func @share(
// CHECK: arith.minsi
// CHECK: llvm.load
// CHECK: arith.select
// CHECK-NOT: llvm.load
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK-NOT: llvm.load
// CHECK: arith.divf
// CHECK: scf.if
// CHECK: llvm.store
// CHECK: llvm.return
kernel.func @share(%x: tensor<1024x23xf32>) -> tensor<1024x23xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [23] init(%zero : f32) {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1024x23xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %v = kernel.read %x (d0, d1) -> (d0, d1) : tensor<1024x23xf32> -> f32
    %q = arith.divf %v, %s : f32
    kernel.yield %q : f32
  } : tensor<1024x23xf32>
  kernel.return %y : tensor<1024x23xf32>
}

// -----

// Four loads are under way before the first is waited for; what is behind the last whole chunk comes one by one.
// CHECK-LABEL: llvm.func @negate(
// CHECK: scf.if
// CHECK-COUNT-16: llvm.load
// CHECK-NOT: llvm.load
// CHECK-COUNT-16: llvm.store
// CHECK: scf.for
// CHECK: scf.if
// CHECK-COUNT-4: llvm.load
// CHECK: scf.if
// CHECK: scf.for
// CHECK: llvm.load
kernel.func @negate(%x: tensor<100000003xf32>) -> tensor<100000003xf32> attributes {aligned} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<100000003xf32> -> f32
    %n = arith.negf %a : f32
    kernel.yield %n : f32
  } : tensor<100000003xf32>
  kernel.return %y : tensor<100000003xf32>
}
