// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v3},kernel.func(cpu-choose-schedule),cpu-emit-kernels)' --split-input-file | FileCheck %s --check-prefixes=CHECK,PIECES
// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v4},kernel.func(cpu-choose-schedule),cpu-emit-kernels)' --split-input-file | FileCheck %s --check-prefixes=CHECK,MASKS

// The last seven elements: in pieces where there are no registers for masks.
// CHECK-LABEL: llvm.func @tail(
// CHECK: llvm.intr.masked.load
// PIECES-NOT: llvm.intr.masked.store
// PIECES: vector.shuffle {{.*}} [0, 1, 2, 3]
// PIECES: llvm.store {{.*}} : vector<4xf32>
// PIECES: vector.shuffle {{.*}} [4, 5]
// PIECES: llvm.store {{.*}} : vector<2xf32>
// PIECES: vector.extract {{.*}}[6]
// PIECES: llvm.store {{.*}} : f32
// MASKS-NOT: llvm.store
// MASKS: llvm.intr.masked.store
kernel.func @tail(%x: tensor<7xf32>) -> tensor<7xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<7xf32> -> f32
    %n = arith.negf %a : f32
    kernel.yield %n : f32
  } : tensor<7xf32>
  kernel.return %y : tensor<7xf32>
}

// -----

// How many there are is known when the model runs.
// CHECK-LABEL: llvm.func @tail_of_any(
// CHECK: llvm.intr.masked.store
module attributes {sym.symbols = {s0 = {min = 1, max = 1000}}} {
kernel.func @tail_of_any(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<?xf32, #sym.shape<[s0]>> -> f32
    %n = arith.negf %a : f32
    kernel.yield %n : f32
  } : tensor<?xf32, #sym.shape<[s0]>>
  kernel.return %y : tensor<?xf32, #sym.shape<[s0]>>
}
}
