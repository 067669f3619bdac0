// RUN: kiln-opt %s --wrapper-plan-memory --split-input-file --verify-diagnostics

wrapper.program @main() {
  // expected-error@+1 {{the arena is larger than 64 bits can address}}
  %a = wrapper.alloc : !wrapper.buffer<[4611686018427387904], [1], f32>
}
