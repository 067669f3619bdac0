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

// A weight of softmax is bounded on one side, where its power of two is 0.
// CHECK-LABEL: llvm.func @weight
// CHECK: arith.cmpf olt
// CHECK: arith.select
// CHECK-COUNT-7: math.fma
// CHECK-NOT: math.fma
// CHECK: arith.shli
// CHECK-NOT: arith.shrui
// CHECK: arith.mulf
// CHECK-NEXT: llvm.return
// SCALE-LABEL: llvm.func @weight
// SCALE-NOT: llvm.ldexp
// SCALE: llvm.return
llvm.func @weight(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.exp %x fastmath<afn> : vector<16xf32>
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

// The quotient of a sigmoid that is rounded to bf16 takes a GPU's reciprocal, of a quarter, which does not overflow. An
// exponential beside 1 need not have denormal numbers.
// CHECK-LABEL: llvm.func @sigmoid
// CHECK: arith.divf
// GPU-LABEL: llvm.func @sigmoid
// GPU: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"
// GPU: %[[SUM:.*]] = arith.addf
// GPU: %[[QUARTER:.*]] = arith.mulf %[[SUM]], %{{.*}}
// GPU: %[[RECIPROCAL:.*]] = llvm.call_intrinsic "llvm.nvvm.rcp.approx.ftz.f"(%[[QUARTER]])
// GPU: %[[DIVIDEND:.*]] = arith.mulf %arg0, %{{.*}}
// GPU: %[[QUOTIENT:.*]] = arith.mulf %[[DIVIDEND]], %[[RECIPROCAL]]
// GPU: arith.truncf %[[QUOTIENT]] : f32 to bf16
llvm.func @sigmoid(%x: f32, %y: f32) -> bf16 {
  %one = arith.constant 1.0 : f32
  %e = math.exp %y : f32
  %s = arith.addf %e, %one : f32
  %q = arith.divf %x, %s : f32
  %r = arith.truncf %q : f32 to bf16
  llvm.return %r : bf16
}

// It is exact where f32 is the result, and where nothing is known of the divisor.
// GPU-LABEL: llvm.func @exact
// GPU: llvm.call_intrinsic "llvm.nvvm.ex2.approx"(
// GPU-NOT: rcp.approx
// GPU: llvm.return
llvm.func @exact(%x: f32, %y: f32) -> !llvm.struct<(f32, bf16)> {
  %one = arith.constant 1.0 : f32
  %e = math.exp %y : f32
  %s = arith.addf %e, %one : f32
  %q = arith.divf %x, %s : f32
  %p = arith.divf %x, %e : f32
  %r = arith.truncf %p : f32 to bf16
  %none = llvm.mlir.undef : !llvm.struct<(f32, bf16)>
  %a = llvm.insertvalue %q, %none[0] : !llvm.struct<(f32, bf16)>
  %b = llvm.insertvalue %r, %a[1] : !llvm.struct<(f32, bf16)>
  llvm.return %b : !llvm.struct<(f32, bf16)>
}

// 1 + erf(x) in a product that is rounded to bf16 takes a GPU's reciprocal and exponential; where f32 is the result it is exact.
// CHECK-LABEL: llvm.func @gelu
// GPU-LABEL: llvm.func @gelu
// GPU: %[[T:.*]] = llvm.call_intrinsic "llvm.nvvm.rcp.approx.ftz.f"
// GPU: %[[GAUSSIAN:.*]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"
// GPU: %[[TAIL:.*]] = arith.mulf %{{.*}}, %[[GAUSSIAN]]
// GPU: %[[REST:.*]] = arith.subf %{{.*}}, %[[TAIL]]
// GPU: arith.select %{{.*}}, %[[TAIL]], %[[REST]]
// GPU: arith.truncf
llvm.func @gelu(%x: f32, %y: f32) -> bf16 {
  %one = arith.constant 1.0 : f32
  %e = math.erf %x : f32
  %s = arith.addf %e, %one : f32
  %p = arith.mulf %y, %s : f32
  %r = arith.truncf %p : f32 to bf16
  llvm.return %r : bf16
}

// GPU-LABEL: llvm.func @exact_gelu
// GPU-NOT: rcp.approx
llvm.func @exact_gelu(%x: f32, %y: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %e = math.erf %x : f32
  %s = arith.addf %e, %one : f32
  %p = arith.mulf %y, %s : f32
  llvm.return %p : f32
}

// Tables of 32 numbers in registers of 16, or of 8 in one; narrower vectors fill a part of one, wider ones take several.
// CHECK-LABEL: llvm.func @error_function
// CHECK-COUNT-7: llvm.call_intrinsic "llvm.x86.avx2.permps"
// CHECK-NOT: permps
// SCALE-LABEL: llvm.func @error_function
// GPU-LABEL: llvm.func @error_function
// SCALE: llvm.insertelement
// SCALE-COUNT-5: llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.ps.512"
// SCALE-NOT: vpermi2var
// SCALE: math.copysign {{.*}} : f32
llvm.func @error_function(%x: f32) -> f32 {
  %e = math.erf %x : f32
  llvm.return %e : f32
}

// CHECK-LABEL: llvm.func @tanh_by_pieces
// CHECK-COUNT-20: llvm.call_intrinsic "llvm.x86.avx2.permps"
// CHECK-NOT: permps
// SCALE-LABEL: llvm.func @tanh_by_pieces
// SCALE-COUNT-6: llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.ps.512"
// SCALE-NOT: arith.divf
// SCALE: llvm.return
llvm.func @tanh_by_pieces(%x: vector<16xf32>) -> vector<16xf32> {
  %e = math.tanh %x : vector<16xf32>
  llvm.return %e : vector<16xf32>
}

// CHECK-LABEL: llvm.func @error_functions
// SCALE-LABEL: llvm.func @error_functions
// SCALE: llvm.shufflevector %{{.*}} [0, 1, 2, 3, 4, 5, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1] : vector<8xi32>
// SCALE: llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.ps.512"
// SCALE: llvm.shufflevector %{{.*}} [0, 1, 2, 3, 4, 5, 6, 7] : vector<16xf32>
// SCALE: math.copysign {{.*}} : vector<8xf32>
// SCALE-COUNT-10: llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.ps.512"
// SCALE: math.copysign {{.*}} : vector<32xf32>
llvm.func @error_functions(%x: vector<8xf32>, %y: vector<32xf32>, %p: !llvm.ptr) {
  %e = math.erf %x : vector<8xf32>
  %f = math.erf %y : vector<32xf32>
  llvm.store %e, %p : vector<8xf32>, !llvm.ptr
  llvm.store %f, %p : vector<32xf32>, !llvm.ptr
  llvm.return
}
