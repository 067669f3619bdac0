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
