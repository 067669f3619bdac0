// RUN: kiln-opt %s --wrapper-plan-memory --split-input-file --verify-diagnostics

wrapper.program @main() {
  // expected-error@+1 {{the arena is larger than 64 bits can address}}
  %a = wrapper.alloc : !wrapper.buffer<[4611686018427387904], [1], f32>
}

// -----

// expected-error@+1 {{function @f calls itself}}
wrapper.func private @f() {
  wrapper.call @g ins() outs()
}
wrapper.func private @g() {
  wrapper.call @f ins() outs()
}
wrapper.program @main() {
  wrapper.call @f ins() outs()
}
