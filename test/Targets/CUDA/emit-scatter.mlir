// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file | FileCheck %s --check-prefix=PLAN
// RUN: kiln-opt %s --cuda-lower-kernels --split-input-file | FileCheck %s

// A block has some places, and a part of the rows that each writes. It reads their targets, then those of all later places, and
// then the values of those that are not written over, all before the first is written. Blocks are as many as the GPU's multiprocessors
// at most, perhaps: then the next kernel's may come.
// PLAN-LABEL: kernel.func @rows
// PLAN-SAME: launch = #kernel.launch<grid = <s0 ceildiv 8>, threads = 256>, schedule = #cuda.scatter<threads = 256, places = 8, batch = 128>
// CHECK-LABEL: llvm.func @rows
// CHECK-SAME: cuda.shared = 72 : i64
// CHECK: nvvm.read.ptx.sreg.nctaid.x
// CHECK: nvvm.griddepcontrol launch_dependents
// CHECK: nvvm.griddepcontrol wait
// CHECK: llvm.load
// CHECK: nvvm.barrier0
// CHECK: llvm.cond_br
// CHECK: nvvm.barrier0
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-COUNT-4: llvm.store %{{.*}} {alignment = 4 : i64} : f32, !llvm.ptr
kernel.func @rows(%x: tensor<10x100xf32>, %index: tensor<?xi64, #sym.shape<[s0]>>,
                  %new: tensor<?x100xf32, #sym.shape<[s0, 100]>>) -> tensor<10x100xf32> attributes {aligned, updates = 0 : i64} {
  %y = kernel.scatter batch [100] targets [10] places [s0] perm [1, 0] init {
    %old = kernel.read %x (d0, d1, d2) -> (d1, d0) : tensor<10x100xf32> -> f32
    kernel.yield %old : f32
  } update {
    %at = kernel.read %index (d0, d1, d2) -> (d2) : tensor<?xi64, #sym.shape<[s0]>> -> i64
    %value = kernel.read %new (d0, d1, d2) -> (d2, d0) : tensor<?x100xf32, #sym.shape<[s0, 100]>> -> f32
    %always = arith.constant true
    kernel.yield %at, %always, %value : i64, i1, f32
  } combine {
  ^bb0(%old: f32, %value: f32):
    kernel.yield %value : f32
  } : tensor<10x100xf32>
  kernel.return %y : tensor<10x100xf32>
}

// -----

// Sums take the places in turns.
// PLAN-LABEL: kernel.func @sums
// PLAN-SAME: schedule = #cuda.tasks
kernel.func @sums(%x: tensor<10x100xf32>, %index: tensor<30xi64>, %new: tensor<30x100xf32>) -> tensor<10x100xf32> attributes {aligned, updates = 0 : i64} {
  %y = kernel.scatter batch [100] targets [10] places [30] perm [1, 0] init {
    %old = kernel.read %x (d0, d1, d2) -> (d1, d0) : tensor<10x100xf32> -> f32
    kernel.yield %old : f32
  } update {
    %at = kernel.read %index (d0, d1, d2) -> (d2) : tensor<30xi64> -> i64
    %value = kernel.read %new (d0, d1, d2) -> (d2, d0) : tensor<30x100xf32> -> f32
    %always = arith.constant true
    kernel.yield %at, %always, %value : i64, i1, f32
  } combine {
  ^bb0(%old: f32, %value: f32):
    %sum = arith.addf %old, %value : f32
    kernel.yield %sum : f32
  } : tensor<10x100xf32>
  kernel.return %y : tensor<10x100xf32>
}
