// RUN: kiln-opt %s --pass-pipeline='builtin.module(llvm.func(codegen-expand-math))' | FileCheck %s
// RUN: kiln-opt %s --pass-pipeline='builtin.module(llvm.func(codegen-expand-math{avx512=true}))' | FileCheck %s --check-prefix=SCALE
// RUN: kiln-opt %s --pass-pipeline='builtin.module(llvm.func(codegen-expand-math{gpu=true}))' | FileCheck %s --check-prefix=GPU

// CHECK-LABEL: llvm.func @exp
// CHECK-NOT: math.exp
// CHECK: math.fma
// CHECK: arith.shli
// SCALE-LABEL: llvm.func @exp
// SCALE: llvm.call_intrinsic "llvm.ldexp"
llvm.func @exp(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.exp %x : vector<16xf32>
  llvm.return %y : vector<16xf32>
}

// Half precision is computed in f32.
// CHECK-LABEL: llvm.func @half
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
// GPU-LABEL: llvm.func @half
// GPU: llvm.call_intrinsic "llvm.nvvm.ex2.approx"
// GPU-NOT: arith.divf
// GPU: llvm.call_intrinsic "llvm.nvvm.rcp.approx.ftz.f"
// GPU-COUNT-3: math.fma
// GPU-NOT: arith.divf
// GPU: llvm.return
llvm.func @half(%x: f16) -> f16 {
  %y = math.tanh %x : f16
  llvm.return %y : f16
}

// PyTorch's own special case.
// CHECK-LABEL: llvm.func @square
// CHECK-NEXT: arith.constant
// CHECK-NEXT: arith.mulf %[[X:.*]], %[[X]]
llvm.func @square(%x: f32) -> f32 {
  %two = arith.constant 2.0 : f32
  %y = math.powf %x, %two : f32
  llvm.return %y : f32
}

// A remainder is a long division.
// CHECK-LABEL: llvm.func @remainder
// CHECK-NOT: arith.remf
// CHECK: scf.while
// CHECK: vector.reduction <or>
// CHECK: arith.divf
// CHECK: math.fma
// CHECK-NOT: arith.remf
// CHECK: math.copysign
llvm.func @remainder(%x: vector<8xf64>, %y: vector<8xf64>) -> vector<8xf64> {
  %z = arith.remf %x, %y : vector<8xf64>
  llvm.return %z : vector<8xf64>
}

// Instructions stay.
// CHECK-LABEL: llvm.func @kept
// CHECK: math.sqrt
// CHECK: math.floor
llvm.func @kept(%x: f32) -> f32 {
  %r = math.sqrt %x : f32
  %y = math.floor %r : f32
  llvm.return %y : f32
}
