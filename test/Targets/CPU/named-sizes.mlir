// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v4},kernel.func(cpu-choose-schedule),cpu-emit-kernels)' | FileCheck %s

// The host has computed s0 floordiv s1: it is number 2 in the table of symbols, and s0 and s1 are not needed here.
// CHECK-LABEL: llvm.func @named
// CHECK-NOT: %arg1[{{[01]}}]
// CHECK: llvm.getelementptr %arg1[2]
// CHECK-NOT: %arg1[
module attributes {sym.symbols = {s0 = {min = 1 : i64}, s1 = {min = 1 : i64}, size.0 = {size = #sym.expr<s0 floordiv s1>}}} {
  kernel.func @named(%x: tensor<?xf32, #sym.shape<[s0 floordiv s1]>>) -> tensor<?xf32, #sym.shape<[s0 floordiv s1]>> {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (d0) : tensor<?xf32, #sym.shape<[s0 floordiv s1]>> -> f32
      kernel.yield %a : f32
    } : tensor<?xf32, #sym.shape<[s0 floordiv s1]>>
    kernel.return %y : tensor<?xf32, #sym.shape<[s0 floordiv s1]>>
  }
}
