// RUN: kiln-opt %s --pass-pipeline='builtin.module(kernel.func(cpu-choose-schedule{cpu=x86-64-v4}),cpu-emit-kernels{cpu=x86-64-v4})' --split-input-file | FileCheck %s

// Whole vectors in a loop, then a masked tail.
// CHECK-LABEL: llvm.func @tail(
// CHECK: scf.for
// CHECK: llvm.load {{.*}} -> vector<32xf32>
// CHECK: llvm.store {{.*}} : vector<32xf32>
// CHECK: llvm.intr.masked.load
// CHECK: llvm.intr.masked.store
kernel.func @tail(%x: tensor<1001xf32>) -> tensor<1001xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<1001xf32> -> f32
    %n = arith.negf %a : f32
    kernel.yield %n : f32
  } : tensor<1001xf32>
  kernel.return %y : tensor<1001xf32>
}

// -----

// An index from data is checked and clamped before it is used.
// CHECK-LABEL: llvm.func @lookup(
// CHECK: arith.cmpi uge
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : i32, !llvm.ptr
// CHECK: arith.minsi
// CHECK: arith.maxsi
kernel.func @lookup(%w: tensor<100x64xf32>, %i: tensor<4xi64>) -> tensor<4x64xf32> {
  %y = kernel.map {
    %k = kernel.read %i (d0, d1) -> (d0) : tensor<4xi64> -> i64
    %a = kernel.read %w (d0, d1, d2) -> (d2, d1) values(%k) : tensor<100x64xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4x64xf32>
  kernel.return %y : tensor<4x64xf32>
}

// -----

// A row's sum is computed once, before the loop over its elements.
// CHECK-LABEL: llvm.func @center(
// CHECK: scf.for {{.*}} iter_args
// CHECK: vector.shuffle
// CHECK: scf.for
// CHECK: arith.subf
// CHECK-NOT: iter_args
kernel.func @center(%x: tensor<1x768xf32>) -> tensor<1x768xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [768] init(%zero : f32) {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x768xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<1x768xf32> -> f32
    %d = arith.subf %a, %s : f32
    kernel.yield %d : f32
  } : tensor<1x768xf32>
  kernel.return %y : tensor<1x768xf32>
}
