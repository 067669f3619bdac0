// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v4},kernel.func(cpu-choose-schedule),cpu-emit-kernels)' --split-input-file | FileCheck %s

// Lanes' places are computed in 32 bits where the range of s0 allows it, since a register holds twice as many of them.
// CHECK-LABEL: llvm.func @short
// CHECK-NOT: vector<{{[0-9]+}}xi64>
// CHECK: llvm.getelementptr {{.*}} : (!llvm.ptr, vector<32xi32>) -> vector<32x!llvm.ptr>
// CHECK-NOT: vector<{{[0-9]+}}xi64>
module attributes {sym.symbols = {s0 = {min = 1 : i64, max = 1000 : i64}}} {
  kernel.func @short(%x: tensor<8x?xf32, #sym.shape<[8, s0]>>) -> tensor<?x8xf32, #sym.shape<[s0, 8]>> {
    %y = kernel.map {
      %a = kernel.read %x (d0, d1) -> (d1, s0 - d0 - 1) : tensor<8x?xf32, #sym.shape<[8, s0]>> -> f32
      kernel.yield %a : f32
    } : tensor<?x8xf32, #sym.shape<[s0, 8]>>
    kernel.return %y : tensor<?x8xf32, #sym.shape<[s0, 8]>>
  }
}

// -----

// Nothing bounds s0, nor, then, how far apart the lanes lie.
// CHECK-LABEL: llvm.func @long
// CHECK: llvm.getelementptr {{.*}} : (!llvm.ptr, vector<32xi64>) -> vector<32x!llvm.ptr>
module attributes {sym.symbols = {s0 = {min = 1 : i64}}} {
  kernel.func @long(%x: tensor<8x?xf32, #sym.shape<[8, s0]>>) -> tensor<?x8xf32, #sym.shape<[s0, 8]>> {
    %y = kernel.map {
      %a = kernel.read %x (d0, d1) -> (d1, s0 - d0 - 1) : tensor<8x?xf32, #sym.shape<[8, s0]>> -> f32
      kernel.yield %a : f32
    } : tensor<?x8xf32, #sym.shape<[s0, 8]>>
    kernel.return %y : tensor<?x8xf32, #sym.shape<[s0, 8]>>
  }
}
