// RUN: kiln-opt %s --pass-pipeline='builtin.module(llvm.func(codegen-expand-small-floats))' --split-input-file --verify-diagnostics

llvm.func @atomic(%p: !llvm.ptr, %x: bf16) -> bf16 {
  // expected-error @below {{has no form in f32}}
  %y = llvm.atomicrmw fadd %p, %x monotonic : !llvm.ptr, bf16
  llvm.return %y : bf16
}

// -----

llvm.func @pair(%x: f16) -> !llvm.struct<(f16, i32)> {
  // expected-error @below {{has no form in f32}}
  %y = llvm.intr.frexp(%x) : (f16) -> !llvm.struct<(f16, i32)>
  llvm.return %y : !llvm.struct<(f16, i32)>
}
