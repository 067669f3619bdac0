// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v3},kernel.func(cpu-choose-schedule))' --split-input-file | FileCheck %s
// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v3},kernel.func(cpu-choose-schedule),cpu-emit-kernels)' --split-input-file | FileCheck %s --check-prefix=CODE

// Rows that share sets of the caches are summed a few at a time, for all columns of a task, whose sums are in its scratch memory; the last
// two of 1002 rows one by one.
// CHECK-LABEL: kernel.func @rows
// CHECK-SAME: launch = #kernel.launch<grid = <2>, scratch = 2048>
// CHECK-SAME: columns = 512, streams = true>
// CODE-LABEL: llvm.func @rows(
// CODE: scf.for
// CODE: llvm.store
// CODE: scf.for %{{.*}} step %c8_i64
// CODE: scf.for
// CODE-COUNT-8: arith.addf {{.*}} : vector<{{8|16}}xf32>
// CODE-NOT: arith.addf {{.*}} : vector
// CODE: scf.for
// CODE: scf.for
// CODE-COUNT-1: arith.addf {{.*}} : vector<{{8|16}}xf32>
// CODE-NOT: arith.addf {{.*}} : vector
// CODE: llvm.return
kernel.func @rows(%x: tensor<1002x1024xf32>) -> tensor<1024xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %sum = kernel.reduce [1002] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<1002x1024xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    kernel.yield %sum : f32
  } : tensor<1024xf32>
  kernel.return %y : tensor<1024xf32>
}

// -----

// Rows of a number of bytes that does not, those that level 2 cache holds, and few of them are reduced vector by vector.
// CHECK-LABEL: kernel.func @other_sets
// CHECK-NOT: streams
// CHECK-LABEL: kernel.func @in_cache
// CHECK-NOT: streams
// CHECK-LABEL: kernel.func @few
// CHECK-NOT: streams
kernel.func @other_sets(%x: tensor<1000x1000xf32>) -> tensor<1000xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %sum = kernel.reduce [1000] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<1000x1000xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    kernel.yield %sum : f32
  } : tensor<1000xf32>
  kernel.return %y : tensor<1000xf32>
}
kernel.func @in_cache(%x: tensor<100x1024xf32>) -> tensor<1024xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %sum = kernel.reduce [100] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<100x1024xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    kernel.yield %sum : f32
  } : tensor<1024xf32>
  kernel.return %y : tensor<1024xf32>
}
kernel.func @few(%x: tensor<12x65536xf32>) -> tensor<65536xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %sum = kernel.reduce [12] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<12x65536xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    kernel.yield %sum : f32
  } : tensor<65536xf32>
  kernel.return %y : tensor<65536xf32>
}
