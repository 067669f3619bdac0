// RUN: kiln-opt %s --pass-pipeline='builtin.module(llvm.func(codegen-convert-to-llvm))' | FileCheck %s

// CHECK-LABEL: llvm.func @loop
// CHECK-NOT: scf.
// CHECK: llvm.cond_br
// CHECK: llvm.fadd {{.*}} : vector<16xf32>
llvm.func @loop(%n: i64, %x: vector<16xf32>) -> vector<16xf32> {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %s = scf.for %i = %zero to %n step %one iter_args(%a = %x) -> vector<16xf32> : i64 {
    %b = arith.addf %a, %x : vector<16xf32>
    scf.yield %b : vector<16xf32>
  }
  llvm.return %s : vector<16xf32>
}

// Beside products of warpgroups arithmetic stays in f32: LLVM does not see that a number had half the bits.
// CHECK-LABEL: llvm.func @beside
// CHECK: %[[WIDE:.*]] = llvm.fpext %{{.*}} : bf16 to f32
// CHECK: llvm.inline_asm "", "=f,0" %[[WIDE]] : (f32) -> f32
llvm.func @beside(%sums: !llvm.struct<(f32, f32, f32, f32)>, %operand: i64, %x: bf16) -> f32 attributes {nvvm.kernel} {
  %product = nvvm.wgmma.mma_async %operand, %operand, %sums, <m = 64, n = 8, k = 16>, D[<f32>, <one>], A[<bf16>, <one>, <row>], B[<bf16>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32)>
  %y = arith.extf %x : bf16 to f32
  llvm.return %y : f32
}

// A number bounded by a constant is one instruction of a GPU; on x86 the comparison and the selection are.
// CHECK-LABEL: llvm.func @bounded_on_device
// CHECK: llvm.intr.maximum
// CHECK: llvm.intr.minimum
// CHECK-NOT: llvm.select
llvm.func @bounded_on_device(%x: f32) -> f32 attributes {nvvm.kernel} {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %below = arith.cmpf olt, %x, %zero : f32
  %y = arith.select %below, %zero, %x : f32
  %above = arith.cmpf olt, %six, %y : f32
  %z = arith.select %above, %six, %y : f32
  llvm.return %z : f32
}

// CHECK-LABEL: llvm.func @bounded
// CHECK: llvm.fcmp "olt"
// CHECK: llvm.select
llvm.func @bounded(%x: f32) -> f32 {
  %zero = arith.constant 0.0 : f32
  %below = arith.cmpf olt, %x, %zero : f32
  %y = arith.select %below, %zero, %x : f32
  llvm.return %y : f32
}

// Neither is a bound: NaN, and the smaller of two.
// CHECK-LABEL: llvm.func @no_bounds_on_device
// CHECK-NOT: llvm.intr
// CHECK: llvm.return
llvm.func @no_bounds_on_device(%x: f32) -> f32 attributes {nvvm.kernel} {
  %nan = arith.constant 0x7FC00000 : f32
  %one = arith.constant 1.0 : f32
  %below = arith.cmpf olt, %x, %nan : f32
  %y = arith.select %below, %nan, %x : f32
  %smaller = arith.cmpf ole, %y, %one : f32
  %z = arith.select %smaller, %one, %y : f32
  llvm.return %z : f32
}

// A CPU's extremes need not order zeros, which takes three more instructions; a GPU has one that does.
// CHECK-LABEL: llvm.func @extremes
// CHECK: llvm.intr.maximum(%{{.*}}, %{{.*}}) {fastmathFlags = #llvm.fastmath<nsz>} : (vector<8xf32>, vector<8xf32>) -> vector<8xf32>
// CHECK: llvm.intr.minimum(%{{.*}}, %{{.*}}) {fastmathFlags = #llvm.fastmath<nsz>}
llvm.func @extremes(%x: vector<8xf32>, %y: vector<8xf32>) -> vector<8xf32> {
  %0 = arith.maximumf %x, %y : vector<8xf32>
  %1 = arith.minimumf %0, %x : vector<8xf32>
  llvm.return %1 : vector<8xf32>
}

// CHECK-LABEL: llvm.func @extreme_of_gpu
// CHECK: llvm.intr.maximum(%{{.*}}, %{{.*}}) : (f32, f32) -> f32
llvm.func @extreme_of_gpu(%x: f32, %y: f32) -> f32 attributes {nvvm.kernel} {
  %0 = arith.maximumf %x, %y : f32
  llvm.return %0 : f32
}
