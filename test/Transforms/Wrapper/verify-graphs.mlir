// RUN: kiln-opt %s --wrapper-verify --split-input-file --verify-diagnostics

// A buffer that a nested graph writes to is written; its argument is not for it to write.
wrapper.func private @f(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[4], [1], f32>
    attributes {arena_bytes = #sym.expr<0>} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{writes to input 0, which is not mutated}}
  wrapper.copy %y to %x : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"})
    -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.call @f ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>)
}

// -----

// v5, of a nested graph
// expected-error@+1 {{output 0 is never written}}
wrapper.func private @f() -> !wrapper.buffer<[4], [1], f32> attributes {arena_bytes = #sym.expr<0>} {
  wrapper.comment "nothing"
}
wrapper.program @main() -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.call @f ins() outs(%y : !wrapper.buffer<[4], [1], f32>)
}

// -----

// v8, of nested graphs: what one defines is known after it, what one uses is known before it.
wrapper.func private @f() attributes {arena_bytes = #sym.expr<0>} {
  wrapper.define "u0" = 2
  wrapper.define "u1" = u0 + 1
}
wrapper.func private @g() attributes {arena_bytes = #sym.expr<0>} {
  wrapper.assert u2 - 2, "uses u2"
}
wrapper.program @main()
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64, symbols = {u0 = {}, u1 = {}, u2 = {}}} {
  wrapper.call @f ins() outs()
  wrapper.assert u1 - 2, "known"
  // expected-error@+1 {{uses symbol u2 before it is defined}}
  wrapper.call @g ins() outs()
  wrapper.define "u2" = u0
}

// -----

// v10
wrapper.func private @f() -> (!wrapper.buffer<[u0], [1], f32> {wrapper.given}) attributes {arena_bytes = #sym.expr<64*(u0 ceildiv 16)>} {
  wrapper.define "u0" = 2
  %y = wrapper.alloc at 0 : !wrapper.buffer<[u0], [1], f32>
  // expected-error@+1 {{gives memory that is the caller's}}
  wrapper.give %y as 0 : !wrapper.buffer<[u0], [1], f32>
}
wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 0 : i64, symbols = {u0 = {}}} {
  %w = wrapper.alloc at 0 : !wrapper.buffer<[64], [1], i8>
  %y = wrapper.call @f ins() outs() workspace(%w : !wrapper.buffer<[64], [1], i8>) gives(!wrapper.buffer<[u0], [1], f32>)
}
