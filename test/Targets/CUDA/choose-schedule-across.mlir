// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file | FileCheck %s
// RUN: kiln-opt %s --cuda-choose-schedule --cuda-emit-kernels --split-input-file | FileCheck %s --check-prefix=CODE

// Parts of attention are put together: an element is a row by itself, since it reduces as much as what its row shares.
// Eight threads have an element, 32 apart. All is read before the first barrier, each weight once for both sums.
// CHECK-LABEL: kernel.func @combine
// CHECK-SAME: launch = #kernel.launch<grid = <128>, threads = 256>
// CHECK-SAME: schedule = #cuda.map<threads = 256, team = 8, across = 32, keep = {{[0-9]+}}>
// CODE-LABEL: llvm.func @combine
// CODE-COUNT-16: llvm.load
// CODE-NOT: llvm.load
// CODE: nvvm.barrier
// CODE-COUNT-8: llvm.load
// CODE-NOT: llvm.load
// CODE: nvvm.barrier
// CODE-COUNT-8: llvm.load
// CODE-NOT: llvm.load
// CODE: scf.if
// CODE: llvm.store
kernel.func @combine(%max: tensor<64x32xf32>, %parts: tensor<64x32x128xf32>) -> tensor<32x128xf32> {
  %0 = kernel.map {
    %low = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %m = kernel.reduce [64] init(%low : f32) {
      %e = kernel.read %max (d0, d1, d2) -> (d2, d0) : tensor<64x32xf32> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.maximumf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %s = kernel.reduce [64] init(%zero : f32) {
      %e = kernel.read %max (d0, d1, d2) -> (d2, d0) : tensor<64x32xf32> -> f32
      %d = arith.subf %e, %m : f32
      %x = kernel.read %parts (d0, d1, d2) -> (d2, d0, d1) : tensor<64x32x128xf32> -> f32
      %p = arith.mulf %d, %x : f32
      kernel.yield %p : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %r = arith.divf %one, %s : f32
    kernel.yield %r : f32
  } : tensor<32x128xf32>
  kernel.return %0 : tensor<32x128xf32>
}

// -----

// Threads beyond the last row read what it reads: all of a block come to the barrier.
// CHECK-LABEL: kernel.func @ragged
// CHECK-SAME: launch = #kernel.launch<grid = <2>, threads = 128>
// CHECK-SAME: schedule = #cuda.map<threads = 128, team = 4, across = 32, keep = 64>
// CODE-LABEL: llvm.func @ragged
// CODE: arith.minsi
// CODE-NOT: scf.if
// CODE: nvvm.barrier
// CODE: scf.if
// CODE-NEXT: llvm.getelementptr
// CODE-NEXT: llvm.store
kernel.func @ragged(%x: tensor<16x50xf32>) -> tensor<50xf32> {
  %0 = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [16] init(%zero : f32) {
      %e = kernel.read %x (d0, d1) -> (d1, d0) : tensor<16x50xf32> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<50xf32>
  kernel.return %0 : tensor<50xf32>
}
