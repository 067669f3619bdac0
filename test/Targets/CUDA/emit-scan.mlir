// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file | FileCheck %s --check-prefix=PLAN
// RUN: kiln-opt %s --cuda-lower-kernels --split-input-file | FileCheck %s

// A block has a line; its lanes meet in five steps, its warps through shared memory.
// PLAN-LABEL: kernel.func @lines
// PLAN-SAME: launch = #kernel.launch<grid = <s0>, threads = 256
// PLAN-SAME: schedule = #cuda.scan<threads = 256, elements = 4, parts = false>
// CHECK-LABEL: llvm.func @lines
// CHECK-SAME: cuda.shared = 32
// CHECK: nvvm.shfl.sync bfly
// CHECK: nvvm.shfl.sync bfly
// CHECK: nvvm.shfl.sync bfly
// CHECK: nvvm.shfl.sync bfly
// CHECK: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.shfl.sync
// CHECK: nvvm.barrier
// CHECK: nvvm.barrier
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
kernel.func @lines(%x: tensor<?x3000xi32, #sym.shape<[s0, 3000]>>) -> tensor<?x3000xi32, #sym.shape<[s0, 3000]>> {
  %y = kernel.scan dim 1 init {
    %zero = arith.constant 0 : i32
    kernel.yield %zero : i32
  } body {
    %v = kernel.read %x (d0, d1) -> (d0, d1) : tensor<?x3000xi32, #sym.shape<[s0, 3000]>> -> i32
    kernel.yield %v : i32
  } combine {
  ^bb0(%sum: i32, %next: i32):
    %s = arith.addi %sum, %next : i32
    kernel.yield %s : i32
  } finish {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<?x3000xi32, #sym.shape<[s0, 3000]>>
  kernel.return %y : tensor<?x3000xi32, #sym.shape<[s0, 3000]>>
}

// -----

// What does not depend on the order of elements alone takes one after the other.
// PLAN-LABEL: kernel.func @ordered
// PLAN-SAME: launch = #kernel.launch<grid = <1>, threads = 64
// CHECK-LABEL: llvm.func @ordered
// CHECK-NOT: nvvm.shfl
// CHECK: llvm.return
kernel.func @ordered(%x: tensor<3000xf32>) -> tensor<3000xf32> {
  %y = kernel.scan dim 0 init {
    %zero = arith.constant 0.0 : f32
    kernel.yield %zero : f32
  } body {
    %v = kernel.read %x (d0) -> (d0) : tensor<3000xf32> -> f32
    kernel.yield %v : f32
  } combine {
  ^bb0(%sum: f32, %next: f32):
    %half = arith.constant 0.5 : f32
    %less = arith.mulf %sum, %half : f32
    %s = arith.addf %less, %next : f32
    kernel.yield %s : f32
  } finish {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<3000xf32>
  kernel.return %y : tensor<3000xf32>
}

// -----

// Many lines side by side are read side by side by a thread each.
// PLAN-LABEL: kernel.func @columns
// PLAN-SAME: launch = #kernel.launch<grid = <128>, threads = 64
// CHECK-LABEL: llvm.func @columns
// CHECK-NOT: nvvm.shfl
// CHECK: llvm.return
kernel.func @columns(%x: tensor<3000x8192xf32>) -> tensor<3000x8192xf32> {
  %y = kernel.scan dim 0 init {
    %zero = arith.constant 0.0 : f32
    kernel.yield %zero : f32
  } body {
    %v = kernel.read %x (d0, d1) -> (d0, d1) : tensor<3000x8192xf32> -> f32
    kernel.yield %v : f32
  } combine {
  ^bb0(%sum: f32, %next: f32):
    %s = arith.addf %sum, %next : f32
    kernel.yield %s : f32
  } finish {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<3000x8192xf32>
  kernel.return %y : tensor<3000x8192xf32>
}

// -----

// A state of two values that may be combined in any grouping, though not in any order: lower lanes come first.
// PLAN-LABEL: kernel.func @extremes
// PLAN-SAME: threads = 256
// CHECK-LABEL: llvm.func @extremes
// CHECK-SAME: cuda.shared = 96
// CHECK-COUNT-15: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.shfl.sync
// CHECK: nvvm.barrier
// CHECK: llvm.return
kernel.func @extremes(%x: tensor<3000xf32>) -> (tensor<3000xf32>, tensor<3000xi64>) {
  %y:2 = kernel.scan dim 0 associative init {
    %least = arith.constant 0xFF800000 : f32
    %none = arith.constant 0 : i64
    kernel.yield %least, %none : f32, i64
  } body {
    %v = kernel.read %x (d0) -> (d0) : tensor<3000xf32> -> f32
    %i = kernel.index (d0) -> (d0)
    kernel.yield %v, %i : f32, i64
  } combine {
  ^bb0(%best: f32, %at: i64, %next: f32, %i: i64):
    %c = arith.cmpf oge, %next, %best : f32
    %v = arith.select %c, %next, %best : f32
    %j = arith.select %c, %i, %at : i64
    kernel.yield %v, %j : f32, i64
  } finish {
  ^bb0(%best: f32, %at: i64):
    kernel.yield %best, %at : f32, i64
  } : tensor<3000xf32>, tensor<3000xi64>
  kernel.return %y#0, %y#1 : tensor<3000xf32>, tensor<3000xi64>
}

// -----

// Few long lines: a block has a part of one, which it keeps in registers. It says what the part comes to and looks at those
// in front in its group of 32. The last block says what the group comes to. All look at the 32 groups in front, and so on,
// go back from the last one whose line is known, the last block says what the line comes to, and all count themselves; the
// last one of all lowers the flags.
// PLAN-LABEL: kernel.func @parts
// PLAN-SAME: launch = #kernel.launch<grid = <16>, threads = 256
// PLAN-SAME: schedule = #cuda.scan<threads = 256, elements = 16, parts = true>
// CHECK-LABEL: llvm.func @parts
// CHECK-SAME: cuda.shared = 84
// CHECK-SAME: cuda.shared_workspace = 134912
// CHECK: nvvm.barrier
// CHECK: cuda.publish{{.*}} "st.release.gpu.b32 [$0], $1;"
// CHECK: cuda.look{{.*}} ld.acquire.gpu.b32
// CHECK: nvvm.shfl.sync idx
// CHECK: cuda.publish
// CHECK: cuda.look
// CHECK: nvvm.shfl.sync idx
// CHECK: cuda.publish
// CHECK: nvvm.bar.warp.sync
// CHECK: cuda.count_blocks{{.*}} "atom.acq_rel.gpu.inc.u32
// CHECK: nvvm.barrier
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
kernel.func @parts(%x: tensor<2x32000xf32>) -> tensor<2x32000xf32> {
  %y = kernel.scan dim 1 init {
    %zero = arith.constant 0.0 : f64
    kernel.yield %zero : f64
  } body {
    %v = kernel.read %x (d0, d1) -> (d0, d1) : tensor<2x32000xf32> -> f32
    %w = arith.extf %v : f32 to f64
    kernel.yield %w : f64
  } combine {
  ^bb0(%sum: f64, %next: f64):
    %s = arith.addf %sum, %next : f64
    kernel.yield %s : f64
  } finish {
  ^bb0(%sum: f64):
    %s = arith.truncf %sum : f64 to f32
    kernel.yield %s : f32
  } : tensor<2x32000xf32>
  kernel.return %y : tensor<2x32000xf32>
}

// -----

// Only the run shows how long the line is: whether it is cut, and whether into parts of several pieces.
// PLAN-LABEL: kernel.func @unknown
// PLAN-SAME: grid = <s0 ceildiv (4096*max(s0 ceildiv 32505856, 1))>
// CHECK-LABEL: llvm.func @unknown
// CHECK: cuda.publish
// CHECK: cuda.publish
// CHECK: cuda.publish
// CHECK: cuda.publish
// CHECK: llvm.return
kernel.func @unknown(%x: tensor<?xi32, #sym.shape<[s0]>>) -> tensor<?xi32, #sym.shape<[s0]>> {
  %y = kernel.scan dim 0 init {
    %zero = arith.constant 0 : i32
    kernel.yield %zero : i32
  } body {
    %v = kernel.read %x (d0) -> (d0) : tensor<?xi32, #sym.shape<[s0]>> -> i32
    kernel.yield %v : i32
  } combine {
  ^bb0(%sum: i32, %next: i32):
    %s = arith.addi %sum, %next : i32
    kernel.yield %s : i32
  } finish {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<?xi32, #sym.shape<[s0]>>
  kernel.return %y : tensor<?xi32, #sym.shape<[s0]>>
}
