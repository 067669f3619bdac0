// RUN: kiln-opt %s --pass-pipeline='builtin.module(llvm.func(codegen-expand-small-floats))' --split-input-file | FileCheck %s

// Rounding to bf16 keeps denormals: integer code, not an instruction. NaN has bits of its own.
// CHECK-LABEL: llvm.func @round(%arg0: f32) -> i16
// CHECK-NOT: llvm.fptrunc
// CHECK-DAG: llvm.fcmp "uno"
// CHECK-DAG: llvm.mlir.constant(32704 : i32)
// CHECK: llvm.trunc %{{.*}} : i32 to i16
llvm.func @round(%x: f32) -> bf16 {
  %y = llvm.fptrunc %x : f32 to bf16
  llvm.return %y : bf16
}

// -----

// By way of f32, as c10 does it.
// CHECK-LABEL: llvm.func @fromDouble
// CHECK: llvm.fptrunc %arg0 : vector<4xf64> to vector<4xf32>
// CHECK: llvm.lshr {{.*}} : vector<4xi32>
// CHECK: llvm.fptrunc %arg0 : vector<4xf64> to vector<4xf32>
// CHECK: llvm.call_intrinsic "llvm.arithmetic.fence"
// CHECK: llvm.fptrunc {{.*}} : vector<4xf32> to vector<4xf16>
llvm.func @fromDouble(%x: vector<4xf64>, %p: !llvm.ptr, %q: !llvm.ptr) {
  %b = llvm.fptrunc %x : vector<4xf64> to vector<4xbf16>
  llvm.store %b, %p : vector<4xbf16>, !llvm.ptr
  %h = llvm.fptrunc %x : vector<4xf64> to vector<4xf16>
  llvm.store %h, %q : vector<4xf16>, !llvm.ptr
  llvm.return
}

// -----

// A maximum is one of its operands, and NaN if one of them is.
// CHECK-LABEL: llvm.func @largest(%arg0: vector<8xi16>, %arg1: vector<8xi16>) -> vector<8xi16>
// CHECK: %[[LARGER:.*]] = llvm.fcmp "ugt" {{.*}} : vector<8xf32>
// CHECK: %[[CHOSEN:.*]] = llvm.select %[[LARGER]], %arg0, %arg1 : vector<8xi1>, vector<8xi16>
// CHECK: %[[NAN:.*]] = llvm.fcmp "uno"
// CHECK: llvm.select %[[NAN]], %arg1, %[[CHOSEN]] : vector<8xi1>, vector<8xi16>
// CHECK-NOT: llvm.trunc
llvm.func @largest(%x: vector<8xbf16>, %y: vector<8xbf16>) -> vector<8xbf16> {
  %z = llvm.intr.maximum(%x, %y) : (vector<8xbf16>, vector<8xbf16>) -> vector<8xbf16>
  llvm.return %z : vector<8xbf16>
}

// -----

// Rounding to an integer gives a number of bf16: its bits are shifted, not rounded again.
// CHECK-LABEL: llvm.func @floor
// CHECK: llvm.intr.floor
// CHECK-NOT: llvm.fcmp
// CHECK: llvm.lshr
// CHECK: llvm.trunc %{{.*}} : i32 to i16
llvm.func @floor(%x: bf16) -> bf16 {
  %y = llvm.intr.floor(%x) : (bf16) -> bf16
  llvm.return %y : bf16
}

// -----

// A sign is a bit.
// CHECK-LABEL: llvm.func @negate
// CHECK: %[[SIGN:.*]] = llvm.mlir.constant(dense<-32768> : vector<8xi16>)
// CHECK: llvm.xor %arg0, %[[SIGN]] : vector<8xi16>
// CHECK: %[[REST:.*]] = llvm.mlir.constant(32767 : i16)
// CHECK: llvm.and %arg1, %[[REST]] : i16
llvm.func @negate(%x: vector<8xf16>, %y: bf16, %p: !llvm.ptr) -> bf16 {
  %n = llvm.fneg %x : vector<8xf16>
  llvm.store %n, %p : vector<8xf16>, !llvm.ptr
  %a = llvm.intr.fabs(%y) : (bf16) -> bf16
  llvm.return %a : bf16
}

// CHECK-LABEL: llvm.func @negateWide
// CHECK: %[[BITS:.*]] = llvm.xor %arg0, %{{.*}} : i16
// CHECK: llvm.return %[[BITS]] : i16
llvm.func @negateWide(%x: f16) -> f16 {
  %w = llvm.fpext %x : f16 to f32
  %n = llvm.fneg %w : f32
  %y = llvm.fptrunc %n : f32 to f16
  llvm.return %y : f16
}

// -----

// Arithmetic, comparisons and conversions are in f32; whatever moves numbers moves integers.
// CHECK-LABEL: llvm.func @compute
// CHECK-NOT: bf16
// CHECK: llvm.mlir.constant(16256 : i16) : i16
// CHECK: llvm.load %arg0 : !llvm.ptr -> i16
// CHECK: llvm.fadd {{.*}} {fastmathFlags = #llvm.fastmath<contract>} : f32
// CHECK: llvm.fcmp "olt" {{.*}} : f32
// CHECK: llvm.select {{.*}} : i1, i16
// CHECK: llvm.cond_br {{.*}}, ^bb1(%{{.*}} : i16), ^bb2
// CHECK: ^bb1(%{{.*}}: i16):
// CHECK: llvm.fptosi {{.*}} : f32 to i64
// CHECK: llvm.sitofp {{.*}} : i64 to f32
// CHECK: llvm.store {{.*}} : i16, !llvm.ptr
// CHECK-NOT: bf16
llvm.func @compute(%p: !llvm.ptr) {
  %one = llvm.mlir.constant(1.0 : bf16) : bf16
  %x = llvm.load %p : !llvm.ptr -> bf16
  %s = llvm.fadd %x, %one {fastmathFlags = #llvm.fastmath<contract>} : bf16
  %c = llvm.fcmp "olt" %s, %x : bf16
  %m = llvm.select %c, %s, %x : i1, bf16
  llvm.cond_br %c, ^bb1(%m : bf16), ^bb2
^bb1(%y: bf16):
  %i = llvm.fptosi %y : bf16 to i64
  %f = llvm.sitofp %i : i64 to bf16
  llvm.store %f, %p : bf16, !llvm.ptr
  llvm.br ^bb2
^bb2:
  llvm.return
}

// -----

// Vectors of vectors and pairs, and constants of theirs.
// CHECK-LABEL: llvm.func @nested
// CHECK-NOT: f16
// CHECK: llvm.mlir.constant(dense<[15360, 16384]> : vector<2xi16>) : vector<2xi16>
// CHECK: llvm.mlir.constant([0 : i16, 15360 : i16]) : !llvm.struct<(i16, i16)>
// CHECK: llvm.insertvalue {{.*}} : !llvm.array<2 x vector<2xi16>>
// CHECK-NOT: f16
llvm.func @nested(%p: !llvm.ptr) {
  %v = llvm.mlir.constant(dense<[1.0, 2.0]> : vector<2xf16>) : vector<2xf16>
  %c = llvm.mlir.constant([0.0 : f16, 1.0 : f16]) : !llvm.struct<(f16, f16)>
  %u = llvm.mlir.undef : !llvm.array<2 x vector<2xf16>>
  %w = llvm.insertvalue %v, %u[1] : !llvm.array<2 x vector<2xf16>>
  llvm.store %w, %p : !llvm.array<2 x vector<2xf16>>, !llvm.ptr
  llvm.store %c, %p : !llvm.struct<(f16, f16)>, !llvm.ptr
  llvm.return
}

// -----

// LLVM puts conversions from f64 to f32 to f16 together where it sees them, and no CPU has that one.
// CHECK-LABEL: llvm.func @fenced
// CHECK: %[[HALF:.*]] = llvm.bitcast %{{.*}} : i16 to f16
// CHECK: %[[WIDE:.*]] = llvm.fpext %[[HALF]] : f16 to f32
// CHECK: %[[FENCED:.*]] = llvm.call_intrinsic "llvm.arithmetic.fence"(%[[WIDE]])
// CHECK: llvm.fpext %[[FENCED]] : f32 to f64
llvm.func @fenced(%p: !llvm.ptr) -> f64 {
  %x = llvm.load %p : !llvm.ptr -> f16
  %y = llvm.fpext %x : f16 to f64
  llvm.return %y : f64
}

// -----

// An instruction of the CPU makes bf16 of f32: around it there are the same bits.
// CHECK-LABEL: llvm.func @instruction(%arg0: vector<16xf32>) -> vector<32xi16>
// CHECK: %[[HALVES:.*]] = llvm.call_intrinsic "llvm.x86.avx512bf16.cvtne2ps2bf16.512"(%arg0, %arg0) : (vector<16xf32>, vector<16xf32>) -> vector<32xbf16>
// CHECK: %[[BITS:.*]] = llvm.bitcast %[[HALVES]] : vector<32xbf16> to vector<32xi16>
// CHECK: llvm.return %[[BITS]]
llvm.func @instruction(%x: vector<16xf32>) -> vector<32xbf16> {
  %y = llvm.call_intrinsic "llvm.x86.avx512bf16.cvtne2ps2bf16.512"(%x, %x) : (vector<16xf32>, vector<16xf32>) -> vector<32xbf16>
  llvm.return %y : vector<32xbf16>
}
