// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file | FileCheck %s --check-prefix=PLAN
// RUN: kiln-opt %s --cuda-lower-kernels --split-input-file | FileCheck %s

// A block sorts 4096 elements, of which each thread has 16: shared memory has room for them and a hole behind each 16.
// What is behind the row's end is greater than all. Layouts that a warp has by itself are changed without the block.
// PLAN-LABEL: kernel.func @tiles
// PLAN-SAME: launch = #kernel.launch<grid = <{{.*}}>, threads = 256
// PLAN-SAME: schedule = #cuda.merge<threads = 256, elements = 16>
// CHECK-LABEL: llvm.func @tiles
// CHECK-SAME: cuda.shared = 34816
// CHECK-COUNT-16: llvm.select %{{.*}}, %{{.*}}, %{{.*}} : i1, i64
// CHECK: nvvm.bar.warp.sync
// CHECK: nvvm.barrier
kernel.func @tiles(%x: tensor<?x10000xi64, #sym.shape<[s0, 10000]>>) -> tensor<?x10000xi64, #sym.shape<[s0, 10000]>> {
  %y = kernel.merge 4096 of 1 {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<?x10000xi64, #sym.shape<[s0, 10000]>> -> i64
    kernel.yield %a : i64
  } : tensor<?x10000xi64, #sym.shape<[s0, 10000]>>
  kernel.return %y : tensor<?x10000xi64, #sym.shape<[s0, 10000]>>
}

// -----

// Lanes look for where the block's elements begin and end; then there is one stage.
// PLAN-LABEL: kernel.func @runs
// PLAN-SAME: launch = #kernel.launch<grid = <3>, threads = 256
// CHECK-LABEL: llvm.func @runs
// CHECK-SAME: cuda.shared = 52240
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.shfl.sync
// CHECK: nvvm.barrier
// CHECK: nvvm.barrier
// CHECK: nvvm.bar.warp.sync
kernel.func @runs(%x: tensor<10000xi64>, %p: tensor<10000xi32>) -> (tensor<10000xi64>, tensor<10000xi32>) {
  %y:2 = kernel.merge 8192 of 4096 {
    %a = kernel.read %x (d0) -> (d0) : tensor<10000xi64> -> i64
    %b = kernel.read %p (d0) -> (d0) : tensor<10000xi32> -> i32
    kernel.yield %a, %b : i64, i32
  } : tensor<10000xi64>, tensor<10000xi32>
  kernel.return %y#0, %y#1 : tensor<10000xi64>, tensor<10000xi32>
}

// -----

// A given block.
// PLAN-LABEL: kernel.func @given
// PLAN-SAME: launch = #kernel.launch<grid = <4>, threads = 64
// CHECK-LABEL: llvm.func @given
// CHECK-SAME: cuda.shared = 2576
kernel.func @given(%x: tensor<1000xi64>) -> tensor<1000xi64> attributes {schedule = #cuda.merge<threads = 64, elements = 4>} {
  %y = kernel.merge 512 of 256 {
    %a = kernel.read %x (d0) -> (d0) : tensor<1000xi64> -> i64
    kernel.yield %a : i64
  } : tensor<1000xi64>
  kernel.return %y : tensor<1000xi64>
}
