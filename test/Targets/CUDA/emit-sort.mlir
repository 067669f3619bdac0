// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file | FileCheck %s --check-prefix=PLAN
// RUN: kiln-opt %s --cuda-lower-kernels --split-input-file | FileCheck %s

// A block has a row: 128 keys and positions in shared memory, of which 28 are behind the row's end.
// PLAN-LABEL: kernel.func @rows
// PLAN-SAME: launch = #kernel.launch<grid = <s0>, threads = 64
// CHECK-LABEL: llvm.func @rows
// CHECK-SAME: cuda.shared = 1536
// CHECK: nvvm.barrier
// CHECK: nvvm.barrier
kernel.func @rows(%x: tensor<?x100xi64, #sym.shape<[s0, 100]>>) -> (tensor<?x100xi64, #sym.shape<[s0, 100]>>, tensor<?x100xi64, #sym.shape<[s0, 100]>>, tensor<?x100xi64, #sym.shape<[s0, 100]>>) {
  %p, %k, %s = kernel.sort {
    %key = kernel.read %x (d0, d1) -> (d0, d1) : tensor<?x100xi64, #sym.shape<[s0, 100]>> -> i64
    kernel.yield %key : i64
  } : tensor<?x100xi64, #sym.shape<[s0, 100]>>, tensor<?x100xi64, #sym.shape<[s0, 100]>>, tensor<?x100xi64, #sym.shape<[s0, 100]>>
  kernel.return %p, %k, %s : tensor<?x100xi64, #sym.shape<[s0, 100]>>, tensor<?x100xi64, #sym.shape<[s0, 100]>>, tensor<?x100xi64, #sym.shape<[s0, 100]>>
}

// -----

// From 256 places on elements are in registers: a warp has the row, so nothing waits for a block. Key and position are one
// word where the key fits 32 bits.
// PLAN-LABEL: kernel.func @registers
// PLAN-SAME: launch = #kernel.launch<grid = <s0>, threads = 32
// PLAN-SAME: schedule = #cuda.sort<threads = 32, places = 512>
// CHECK-LABEL: llvm.func @registers
// CHECK-SAME: cuda.shared = 4352
// CHECK: llvm.shl
// CHECK: llvm.or
// CHECK: nvvm.bar.warp.sync
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
kernel.func @registers(%x: tensor<?x500xi32, #sym.shape<[s0, 500]>>) -> (tensor<?x500xi64, #sym.shape<[s0, 500]>>, tensor<?x500xi64, #sym.shape<[s0, 500]>>, tensor<?x500xi64, #sym.shape<[s0, 500]>>) {
  %p, %k, %s = kernel.sort {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<?x500xi32, #sym.shape<[s0, 500]>> -> i32
    %key = arith.extsi %a : i32 to i64
    kernel.yield %key : i64
  } : tensor<?x500xi64, #sym.shape<[s0, 500]>>, tensor<?x500xi64, #sym.shape<[s0, 500]>>, tensor<?x500xi64, #sym.shape<[s0, 500]>>
  kernel.return %p, %k, %s : tensor<?x500xi64, #sym.shape<[s0, 500]>>, tensor<?x500xi64, #sym.shape<[s0, 500]>>, tensor<?x500xi64, #sym.shape<[s0, 500]>>
}

// -----

// A row of any length is sorted where its results are, by as many stages as its length has bits.
// PLAN-LABEL: kernel.func @any
// PLAN-SAME: launch = #kernel.launch<grid = <1>, threads = 512
// CHECK-LABEL: llvm.func @any
// CHECK-SAME: cuda.shared = 0
// CHECK: llvm.intr.ctlz
// CHECK: nvvm.barrier
// CHECK: llvm.xor
// CHECK: nvvm.barrier
kernel.func @any(%x: tensor<?xi64, #sym.shape<[s0]>>) -> (tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>) {
  %p, %k, %s = kernel.sort {
    %key = kernel.read %x (d0) -> (d0) : tensor<?xi64, #sym.shape<[s0]>> -> i64
    kernel.yield %key : i64
  } : tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>
  kernel.return %p, %k, %s : tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>
}

// -----

// The first ten of a long row are wanted: what is less than the last of those so far goes to a thread's places in shared
// memory, which are sorted when some thread has none left, and in the end.
// PLAN-LABEL: kernel.func @front
// PLAN-SAME: schedule = #cuda.sort<threads = 512, places = 4096>
// CHECK-LABEL: llvm.func @front
// CHECK-SAME: cuda.shared = 49156
// CHECK: %[[RESULTS:.*]] = llvm.getelementptr %arg1
// CHECK: nvvm.barrier
// CHECK-COUNT-4: llvm.icmp "slt" %{{.*}}, %[[LAST:.*]] : i64
// CHECK: llvm.icmp "sgt"
// CHECK: nvvm.barrier
// CHECK: nvvm.barrier
// CHECK: llvm.icmp "ne"
// CHECK: nvvm.barrier
// CHECK: llvm.getelementptr %[[RESULTS]]
kernel.func @front(%x: tensor<?xi64, #sym.shape<[s0]>>) -> (tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>) {
  %p, %k, %s = kernel.sort attributes {first = 10 : i64} {
    %key = kernel.read %x (d0) -> (d0) : tensor<?xi64, #sym.shape<[s0]>> -> i64
    kernel.yield %key : i64
  } : tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>
  kernel.return %p, %k, %s : tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>
}

// -----

// A given number of places.
// PLAN-LABEL: kernel.func @given
// PLAN-SAME: threads = 64
// PLAN-SAME: schedule = #cuda.sort<threads = 64, places = 512>
// CHECK-LABEL: llvm.func @given
// CHECK-SAME: cuda.shared = 6148
kernel.func @given(%x: tensor<?xi64, #sym.shape<[s0]>>) -> (tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>) attributes {schedule = #cuda.sort<threads = 64, places = 512>} {
  %p, %k, %s = kernel.sort attributes {first = 10 : i64} {
    %key = kernel.read %x (d0) -> (d0) : tensor<?xi64, #sym.shape<[s0]>> -> i64
    kernel.yield %key : i64
  } : tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>
  kernel.return %p, %k, %s : tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>
}
