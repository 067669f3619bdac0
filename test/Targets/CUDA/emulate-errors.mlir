// RUN: kiln-opt %s --cuda-emulate --verify-diagnostics

llvm.func @unknown() attributes {nvvm.kernel} {
  // expected-error@+1 {{is not known to the emulator}}
  %clock = nvvm.read.ptx.sreg.clock : i32
  llvm.return
}
