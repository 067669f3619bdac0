// RUN: kiln-opt %s --wrapper-interpret-memory=runs=4 --split-input-file --verify-diagnostics

// m1: never written
wrapper.program @main() -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"}) attributes {arena_bytes = #sym.expr<64>} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{reads byte 0 of a buffer, which nothing has written}}
  wrapper.copy %a to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

// m1: a part that is not written, at a size that only one run has
// expected-note@+1 {{with s0 = 4}}
wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64>, symbols = {s0 = {min = 0, max = 4}}} {
  wrapper.assert s0 - 4, "four"
  %a = wrapper.alloc at 0 : !wrapper.buffer<[5], [1], f32>
  %v = wrapper.view %a offset 0 : !wrapper.buffer<[5], [1], f32> -> !wrapper.buffer<[s0], [1], f32>
  wrapper.copy %x to %v : !wrapper.buffer<[s0], [1], f32> to !wrapper.buffer<[s0], [1], f32>
  %w = wrapper.view %a offset 1 : !wrapper.buffer<[5], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{reads byte 12 of a buffer, which nothing has written}}
  wrapper.copy %w to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

// m1: another buffer has the memory
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64>} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  %v = wrapper.view %a offset 0 : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %v : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  %b = wrapper.reuse %a : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %b : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{reads byte 0 of a buffer, which is not the buffer's any more}}
  wrapper.copy %v to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

// m1: what lies between strided elements is not read, what is beyond the buffer is
// expected-note@+1 {{with s0 = 6}}
wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[2], [1], f32> {wrapper.name = "y"},
    !wrapper.buffer<[s0], [1], f32> {wrapper.name = "z"}) attributes {arena_bytes = #sym.expr<64>, symbols = {s0 = {min = 6, max = 6}}} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  %even = wrapper.view %a offset 0 : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[2], [2], f32>
  wrapper.copy %x to %even : !wrapper.buffer<[2], [1], f32> to !wrapper.buffer<[2], [2], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[2], [1], f32>
  wrapper.copy %even to %y : !wrapper.buffer<[2], [2], f32> to !wrapper.buffer<[2], [1], f32>
  %odd = wrapper.view %a offset 1 : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[2], [2], f32>
  wrapper.copy %x to %odd : !wrapper.buffer<[2], [1], f32> to !wrapper.buffer<[2], [2], f32>
  %all = wrapper.view %a offset 0 : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[s0], [1], f32>
  %z = wrapper.output 1 : !wrapper.buffer<[s0], [1], f32>
  // expected-error@+1 {{reads byte 16 of a buffer, which is not the buffer's any more}}
  wrapper.copy %all to %z : !wrapper.buffer<[s0], [1], f32> to !wrapper.buffer<[s0], [1], f32>
}

// -----

// m1: memory that a graph has given, after the graph ran again
wrapper.func private @f(%x: !wrapper.buffer<[4], [1], f32>) -> (!wrapper.buffer<[4], [1], f32> {wrapper.given}) attributes {arena_bytes = #sym.expr<0>} {
  wrapper.reserve 1, 64
  %a = wrapper.alloc at 0 in 1 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %a : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  wrapper.give %a as 0 : !wrapper.buffer<[4], [1], f32>
}
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64>} {
  %0 = wrapper.call @f ins(%x : !wrapper.buffer<[4], [1], f32>) outs() gives(!wrapper.buffer<[4], [1], f32>)
  %1 = wrapper.call @f ins(%x : !wrapper.buffer<[4], [1], f32>) outs() gives(!wrapper.buffer<[4], [1], f32>)
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{reads byte 0 of a buffer, which is not the buffer's any more}}
  wrapper.copy %0 to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

// m2
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}, %z: !wrapper.buffer<[4], [1], f32> {wrapper.name = "z"})
    attributes {arena_bytes = #sym.expr<64>} {
  // expected-error@+1 {{writes to memory that is not for it to write}}
  wrapper.copy %x to %z : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) attributes {arena_bytes = #sym.expr<64>, weights_bytes = 64 : i64} {
  %w = wrapper.constant at 0 dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{writes to memory that is not for it to write}}
  wrapper.copy %x to %w : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 64 : i64} {
  %v = wrapper.constant at 0 dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{is written and shares its place with another constant}}
  %w = wrapper.constant "w" at 0 mutated dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
}

// -----

wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 128 : i64} {
  %v = wrapper.constant at 0 dense<1.0> : tensor<20xf32> to !wrapper.buffer<[20], [1], f32>
  // expected-error@+1 {{lies in another constant or outside the weights}}
  %w = wrapper.constant at 64 dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) attributes {arena_bytes = #sym.expr<64>} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.free %a : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{writes byte 0 of a buffer, which is not the buffer's any more}}
  wrapper.copy %x to %a : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

// m3
wrapper.program @main() attributes {arena_bytes = #sym.expr<64>} {
  // expected-error@+1 {{has no place}}
  %a = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
}

// -----

wrapper.program @main() attributes {arena_bytes = #sym.expr<64>} {
  // expected-error@+1 {{takes bytes up to 80 of an arena of 64}}
  %a = wrapper.alloc at 64 : !wrapper.buffer<[4], [1], f32>
}

// -----

wrapper.program @main() attributes {arena_bytes = #sym.expr<64>} {
  // expected-error@+1 {{takes 4 bytes at 32}}
  %a = wrapper.alloc at 32 : !wrapper.buffer<[1], [1], f32>
}

// -----

wrapper.program @main() attributes {arena_bytes = #sym.expr<64>} {
  // expected-error@+1 {{is in a segment that is not reserved}}
  %a = wrapper.alloc at 0 in 1 : !wrapper.buffer<[1], [1], f32>
}

// -----

// expected-note@+1 {{with s0 = 33}}
wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"})
    attributes {arena_bytes = #sym.expr<256>, symbols = {s0 = {min = 33, max = 33}}} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[s0], [1], f32>
  // expected-error@+1 {{takes byte 128, which another buffer has}}
  %b = wrapper.alloc at 128 : !wrapper.buffer<[4], [1], f32>
}

// -----

// m4
wrapper.program @main() attributes {arena_bytes = #sym.expr<64>} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.free %a : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{ends a buffer that has ended}}
  wrapper.free %a : !wrapper.buffer<[4], [1], f32>
}

// -----

// m5
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x", wrapper.mutated}) attributes {arena_bytes = #sym.expr<64>} {
  %a = wrapper.view %x offset 0 : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[3], [1], f32>
  %b = wrapper.view %x offset 1 : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[3], [1], f32>
  // expected-error@+1 {{writes a buffer that overlaps one it reads}}
  wrapper.copy %a to %b : !wrapper.buffer<[3], [1], f32> to !wrapper.buffer<[3], [1], f32>
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x", wrapper.mutated}) attributes {arena_bytes = #sym.expr<64>} {
  // expected-error@+1 {{writes a buffer that overlaps one it reads}}
  wrapper.launch @flip ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%x : !wrapper.buffer<[4], [1], f32>)
}
kernel.func @flip(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (3 - d0) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) attributes {arena_bytes = #sym.expr<64>} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  %b = wrapper.view %a offset 0 : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{writes two buffers that overlap}}
  wrapper.launch @two ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%a, %b : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[4], [1], f32>)
}
kernel.func @two(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y:2 = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    kernel.yield %a, %a : f32, f32
  } : tensor<4xf32>, tensor<4xf32>
  kernel.return %y#0, %y#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64>} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  %a = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %a : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  %w = wrapper.view %a offset 0 : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[16], [1], i8>
  // expected-error@+1 {{writes a buffer that overlaps one it reads}}
  wrapper.call @f ins(%a : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>) workspace(%w : !wrapper.buffer<[16], [1], i8>)
}
wrapper.func private @f(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[4], [1], f32> attributes {arena_bytes = #sym.expr<0>} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

// m6, of a program, and of the branch that is wrong
// expected-error@+1 {{reads byte 8 of a buffer, which nothing has written}}
wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64>} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  %v = wrapper.view %y offset 0 : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[2], [1], f32>
  wrapper.copy %x to %v : !wrapper.buffer<[2], [1], f32> to !wrapper.buffer<[2], [1], f32>
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}, %p: !wrapper.buffer<[], [], i1> {wrapper.name = "p"})
    -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"}) attributes {arena_bytes = #sym.expr<64>} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.if %p : !wrapper.buffer<[], [], i1> then @copy else @nothing ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>)
}
wrapper.func private @copy(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[4], [1], f32> attributes {arena_bytes = #sym.expr<0>} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}
// expected-error@+1 {{reads byte 0 of a buffer, which nothing has written}}
wrapper.func private @nothing(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[4], [1], f32> attributes {arena_bytes = #sym.expr<0>} {
  wrapper.comment "forgets"
}

// -----

// m7
wrapper.program @main() -> (!wrapper.buffer<[u0], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64>, symbols = {u0 = {}}} {
  // expected-error@+1 {{uses 64*u0, which has no value}}
  wrapper.reserve 1, 64*u0
  wrapper.define "u0" = 2
}
