// RUN: kiln-opt %s --wrapper-verify --split-input-file --verify-diagnostics

// v2, of sizes that are known at run time: a multiple of 64 bytes is taken
wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"})
    attributes {arena_bytes = #sym.expr<64*(s0 ceildiv 16)>, weights_bytes = 0 : i64, symbols = {s0 = {min = 0}}} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[s0], [1], f32>
  // expected-error@+1 {{lies outside the arena}}
  %b = wrapper.alloc at 64*(s0 ceildiv 16) : !wrapper.buffer<[s0], [1], f32>
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"})
    attributes {arena_bytes = #sym.expr<64*(s0 ceildiv 16) + 128>, weights_bytes = 0 : i64, symbols = {s0 = {min = 0}}} {
  // expected-error@+1 {{is not at a multiple of 64 bytes}}
  %a = wrapper.alloc at 32 : !wrapper.buffer<[1], [1], f32>
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"}) attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64,
    symbols = {s0 = {min = 4}}} {
  %v = wrapper.view %x offset 1 : !wrapper.buffer<[s0], [1], f32> -> !wrapper.buffer<[3], [1], f32>
  // expected-error@+1 {{lies outside the viewed buffer}}
  %w = wrapper.view %x offset s0 - 4 : !wrapper.buffer<[s0], [1], f32> -> !wrapper.buffer<[5], [1], f32>
}

// -----

// v3: memory that a graph has given, after another graph has run it again
wrapper.func private @f(%x: !wrapper.buffer<[4], [1], f32>) -> (!wrapper.buffer<[4], [1], f32> {wrapper.given}) attributes {arena_bytes = #sym.expr<0>} {
  wrapper.reserve 1, 64
  %a = wrapper.alloc at 0 in 1 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %a : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  wrapper.give %a as 0 : !wrapper.buffer<[4], [1], f32>
}
wrapper.func private @g(%x: !wrapper.buffer<[4], [1], f32>) attributes {arena_bytes = #sym.expr<0>} {
  %0 = wrapper.call @f ins(%x : !wrapper.buffer<[4], [1], f32>) outs() gives(!wrapper.buffer<[4], [1], f32>)
}
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64>, weights_bytes = 0 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  %0 = wrapper.call @f ins(%x : !wrapper.buffer<[4], [1], f32>) outs() gives(!wrapper.buffer<[4], [1], f32>)
  wrapper.copy %0 to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  // expected-note@+1 {{here}}
  wrapper.call @g ins(%x : !wrapper.buffer<[4], [1], f32>) outs()
  // expected-error@+1 {{uses a buffer whose memory was freed}}
  wrapper.copy %0 to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

// v4, at sizes that are known at run time: behind each other, whatever is known about the sizes; and 64 bytes before that, where s1 may be 0
wrapper.program @main(%x: !wrapper.buffer<[s0, s1], [s1, 1], f32> {wrapper.name = "x"})
    attributes {arena_bytes = #sym.expr<64*((s0 - 3) ceildiv 16) + 64*(s1 ceildiv 16) + 256>, weights_bytes = 0 : i64, symbols = {s0 = {min = 0}, s1 = {min = 0}}} {
  // expected-note@+1 {{this one}}
  %a = wrapper.alloc at 64 : !wrapper.buffer<[s0 - 3], [1], f32>
  %b = wrapper.alloc at 64*((s0 - 3) ceildiv 16) + 64 : !wrapper.buffer<[s1], [1], f32>
  %c = wrapper.alloc at 64*((s0 - 3) ceildiv 16) + 64*(s1 ceildiv 16) + 64 : !wrapper.buffer<[20], [1], f32>
  wrapper.free %c : !wrapper.buffer<[20], [1], f32>
  // expected-error@+1 {{overlaps a buffer that is alive}}
  %d = wrapper.alloc at 64*((s0 - 3) ceildiv 16) + 64*(s1 ceildiv 16) : !wrapper.buffer<[20], [1], f32>
}

// -----

// Nothing says which of the two is the larger.
wrapper.program @main(%x: !wrapper.buffer<[s0, s1], [s1, 1], f32> {wrapper.name = "x"})
    attributes {arena_bytes = #sym.expr<64*s0 + 64*s1>, weights_bytes = 0 : i64, symbols = {s0 = {min = 0}, s1 = {min = 0}}} {
  // expected-note@+1 {{this one}}
  %a = wrapper.alloc at 0 : !wrapper.buffer<[s0, 16], [16, 1], f32>
  // expected-error@+1 {{overlaps a buffer that is alive}}
  %b = wrapper.alloc at 64*s1 : !wrapper.buffer<[s0, 16], [16, 1], f32>
}

// -----

// v4, of constants
wrapper.program @main() attributes {arena_bytes = #sym.expr<0>, weights_bytes = 128 : i64} {
  %a = wrapper.constant at 0 dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // expected-note@+1 {{this one}}
  %b = wrapper.constant at 0 dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{overlaps another constant}}
  %c = wrapper.constant "c" at 0 mutated dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
}

// -----

wrapper.program @main() attributes {arena_bytes = #sym.expr<0>, weights_bytes = 128 : i64} {
  // expected-note@+1 {{this one}}
  %a = wrapper.constant at 0 dense<1.0> : tensor<17xf32> to !wrapper.buffer<[17], [1], f32>
  // expected-error@+1 {{overlaps another constant}}
  %b = wrapper.constant at 64 dense<1.0> : tensor<1xf32> to !wrapper.buffer<[1], [1], f32>
}

// -----

// v5: a part of an output
// expected-error@+1 {{output 0 is never written, or a part of it is not}}
wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[s0 + 1], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64, symbols = {s0 = {min = 0}}} {
  %y = wrapper.output 0 : !wrapper.buffer<[s0 + 1], [1], f32>
  %v = wrapper.view %y offset 1 : !wrapper.buffer<[s0 + 1], [1], f32> -> !wrapper.buffer<[s0], [1], f32>
  wrapper.copy %x to %v : !wrapper.buffer<[s0], [1], f32> to !wrapper.buffer<[s0], [1], f32>
}

// -----

// v11
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64>, weights_bytes = 0 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  %a = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{reads buffer 0, which is not written or a part of it is not}}
  wrapper.copy %a to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

// Reused memory holds nothing.
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64>, weights_bytes = 0 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  %a = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %a : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  %b = wrapper.reuse %a : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{reads buffer 0, which is not written or a part of it is not}}
  wrapper.copy %b to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

// Of three parts, the one in the middle is missing; then it is there, and the order does not matter.
wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[2*s0 + 4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64*((2*s0 + 4) ceildiv 16)>, weights_bytes = 64 : i64, symbols = {s0 = {min = 0}}} {
  %w = wrapper.constant at 0 dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[2*s0 + 4], [1], f32>
  %a = wrapper.alloc at 0 : !wrapper.buffer<[2*s0 + 4], [1], f32>
  %last = wrapper.view %a offset s0 + 4 : !wrapper.buffer<[2*s0 + 4], [1], f32> -> !wrapper.buffer<[s0], [1], f32>
  %middle = wrapper.view %a offset s0 : !wrapper.buffer<[2*s0 + 4], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  %first = wrapper.view %a offset 0 : !wrapper.buffer<[2*s0 + 4], [1], f32> -> !wrapper.buffer<[s0], [1], f32>
  wrapper.copy %x to %last : !wrapper.buffer<[s0], [1], f32> to !wrapper.buffer<[s0], [1], f32>
  wrapper.copy %last to %first : !wrapper.buffer<[s0], [1], f32> to !wrapper.buffer<[s0], [1], f32>
  // expected-error@+1 {{reads buffer 0, which is not written or a part of it is not}}
  wrapper.copy %a to %y : !wrapper.buffer<[2*s0 + 4], [1], f32> to !wrapper.buffer<[2*s0 + 4], [1], f32>
  wrapper.copy %w to %middle : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[2*s0 + 4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64*((2*s0 + 4) ceildiv 16)>, weights_bytes = 64 : i64, symbols = {s0 = {min = 0}}} {
  %w = wrapper.constant at 0 dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[2*s0 + 4], [1], f32>
  %a = wrapper.alloc at 0 : !wrapper.buffer<[2*s0 + 4], [1], f32>
  %last = wrapper.view %a offset s0 + 4 : !wrapper.buffer<[2*s0 + 4], [1], f32> -> !wrapper.buffer<[s0], [1], f32>
  %middle = wrapper.view %a offset s0 : !wrapper.buffer<[2*s0 + 4], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  %first = wrapper.view %a offset 0 : !wrapper.buffer<[2*s0 + 4], [1], f32> -> !wrapper.buffer<[s0], [1], f32>
  wrapper.copy %x to %last : !wrapper.buffer<[s0], [1], f32> to !wrapper.buffer<[s0], [1], f32>
  wrapper.copy %last to %first : !wrapper.buffer<[s0], [1], f32> to !wrapper.buffer<[s0], [1], f32>
  wrapper.copy %w to %middle : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  wrapper.copy %a to %y : !wrapper.buffer<[2*s0 + 4], [1], f32> to !wrapper.buffer<[2*s0 + 4], [1], f32>
}

// -----

// A predicate and what data defines are read, too.
wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 0 : i64, symbols = {u0 = {}}} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[], [], i64>
  // expected-error@+1 {{reads buffer 0, which is not written or a part of it is not}}
  wrapper.define "u0" from %a : !wrapper.buffer<[], [], i64>
}

// -----

wrapper.func private @f() attributes {arena_bytes = #sym.expr<0>} {
  wrapper.comment "nothing"
}
wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 0 : i64} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[], [], i1>
  // expected-error@+1 {{reads buffer 0, which is not written or a part of it is not}}
  wrapper.if %a : !wrapper.buffer<[], [], i1> then @f else @f ins() outs()
}

// -----

// What a loop has put into its spare buffer is of no use to others; strided elements are written if they are.
wrapper.func private @never(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[], [], i1> attributes {arena_bytes = #sym.expr<0>} {
  %no = wrapper.constant at 0 dense<false> : tensor<i1> to !wrapper.buffer<[], [], i1>
  %y = wrapper.output 0 : !wrapper.buffer<[], [], i1>
  wrapper.copy %no to %y : !wrapper.buffer<[], [], i1> to !wrapper.buffer<[], [], i1>
}
wrapper.func private @same(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[4], [1], f32> attributes {arena_bytes = #sym.expr<0>} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"},
    !wrapper.buffer<[4], [2], f32> {wrapper.name = "z"}) attributes {arena_bytes = #sym.expr<128>, weights_bytes = 64 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  %z = wrapper.output 1 : !wrapper.buffer<[4], [2], f32>
  wrapper.copy %x to %z : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [2], f32>
  %spare = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %z to %spare : !wrapper.buffer<[4], [2], f32> to !wrapper.buffer<[4], [1], f32>
  %flag = wrapper.alloc at 64 : !wrapper.buffer<[], [], i1>
  wrapper.while @never do @same carried(%x : !wrapper.buffer<[4], [1], f32>) ins() outs(%y : !wrapper.buffer<[4], [1], f32>)
      spare(%spare : !wrapper.buffer<[4], [1], f32>) flag(%flag : !wrapper.buffer<[], [], i1>)
  // expected-error@+1 {{reads buffer 0, which is not written or a part of it is not}}
  wrapper.copy %spare to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

// v12
wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x", wrapper.mutated})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64, symbols = {s0 = {min = 8}}} {
  %a = wrapper.view %x offset 0 : !wrapper.buffer<[s0], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  %b = wrapper.view %x offset s0 - 4 : !wrapper.buffer<[s0], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  wrapper.copy %a to %b : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  %c = wrapper.view %x offset s0 - 5 : !wrapper.buffer<[s0], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{writes a buffer that overlaps one it reads}}
  wrapper.copy %a to %c : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

// -----

// In place: an element-wise kernel may, one that turns the order may not.
kernel.func @square(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    %b = arith.mulf %a, %a : f32
    kernel.yield %b : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}
kernel.func @flip(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (3 - d0) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x", wrapper.mutated})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64} {
  wrapper.launch @square ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%x : !wrapper.buffer<[4], [1], f32>)
  // expected-error@+1 {{writes a buffer that overlaps one it reads}}
  wrapper.launch @flip ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%x : !wrapper.buffer<[4], [1], f32>)
}

// -----

kernel.func @two(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y:2 = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    kernel.yield %a, %a : f32, f32
  } : tensor<4xf32>, tensor<4xf32>
  kernel.return %y#0, %y#1 : tensor<4xf32>, tensor<4xf32>
}
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"})
    attributes {arena_bytes = #sym.expr<64>, weights_bytes = 0 : i64} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[7], [1], f32>
  %b = wrapper.view %a offset 0 : !wrapper.buffer<[7], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  %c = wrapper.view %a offset 3 : !wrapper.buffer<[7], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{writes two buffers that overlap}}
  wrapper.launch @two ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%b, %c : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[4], [1], f32>)
}

// -----

// An operator of a library may write what it updates, and nothing else that it reads.
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) attributes {arena_bytes = #sym.expr<128>, weights_bytes = 0 : i64} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  %b = wrapper.alloc at 64 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %a : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %b : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  %v = wrapper.view %a offset 0 : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  wrapper.extern_call "torch" "test.update" args = [#sym.arg<0>, #sym.arg<1>] ins(%a, %b : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[4], [1], f32>)
      outs(%v : !wrapper.buffer<[4], [1], f32>) projection = [] updates = [0]
  // expected-error@+1 {{writes a buffer that overlaps one it reads}}
  wrapper.extern_call "torch" "test.update" args = [#sym.arg<0>, #sym.arg<1>] ins(%b, %a : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[4], [1], f32>)
      outs(%v : !wrapper.buffer<[4], [1], f32>) projection = [] updates = [0]
}

// -----

// A workspace and a spare buffer are written, too.
wrapper.func private @f(%x: !wrapper.buffer<[16], [1], i8>) -> !wrapper.buffer<[16], [1], i8> attributes {arena_bytes = #sym.expr<0>} {
  %y = wrapper.output 0 : !wrapper.buffer<[16], [1], i8>
  wrapper.copy %x to %y : !wrapper.buffer<[16], [1], i8> to !wrapper.buffer<[16], [1], i8>
}
wrapper.program @main(%x: !wrapper.buffer<[16], [1], i8> {wrapper.name = "x"}) -> (!wrapper.buffer<[16], [1], i8> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64>, weights_bytes = 0 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[16], [1], i8>
  %a = wrapper.alloc at 0 : !wrapper.buffer<[16], [1], i8>
  wrapper.copy %x to %a : !wrapper.buffer<[16], [1], i8> to !wrapper.buffer<[16], [1], i8>
  %w = wrapper.view %a offset 0 : !wrapper.buffer<[16], [1], i8> -> !wrapper.buffer<[16], [1], i8>
  // expected-error@+1 {{writes a buffer that overlaps one it reads}}
  wrapper.call @f ins(%a : !wrapper.buffer<[16], [1], i8>) outs(%y : !wrapper.buffer<[16], [1], i8>) workspace(%w : !wrapper.buffer<[16], [1], i8>)
}

// -----

// v9, at sizes that are known at run time
wrapper.func private @f() attributes {arena_bytes = #sym.expr<64*(s0 ceildiv 16)>} {
  wrapper.comment "nothing"
}
wrapper.func private @g() attributes {arena_bytes = #sym.expr<64*(s0 ceildiv 16) + 64>} {
  wrapper.comment "nothing"
}
wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"})
    attributes {arena_bytes = #sym.expr<64*(s0 ceildiv 16)>, weights_bytes = 0 : i64, symbols = {s0 = {min = 0}}} {
  %w = wrapper.alloc at 0 : !wrapper.buffer<[64*(s0 ceildiv 16)], [1], i8>
  wrapper.call @f ins() outs() workspace(%w : !wrapper.buffer<[64*(s0 ceildiv 16)], [1], i8>)
  // expected-error@+1 {{the workspace is too small for @g}}
  wrapper.call @g ins() outs() workspace(%w : !wrapper.buffer<[64*(s0 ceildiv 16)], [1], i8>)
}

// -----

// v13
wrapper.func private @f(%x: !wrapper.buffer<[4], [1], f32>) -> (!wrapper.buffer<[4], [1], f32> {wrapper.given}) attributes {arena_bytes = #sym.expr<0>} {
  wrapper.reserve 1, 64
  %a = wrapper.alloc at 0 in 1 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %a : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  wrapper.give %a as 0 : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{ends the life of a buffer that the caller reads}}
  wrapper.free %a : !wrapper.buffer<[4], [1], f32>
}
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64} {
  %0 = wrapper.call @f ins(%x : !wrapper.buffer<[4], [1], f32>) outs() gives(!wrapper.buffer<[4], [1], f32>)
}

// -----

// v14
kernel.func @put(%x: tensor<8xf32>, %at: tensor<1xi64>) -> tensor<8xf32> attributes {updates = 0 : i64} {
  %y = kernel.scatter batch [] targets [8] places [1] init {
    %old = kernel.read %x (d0, d1) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %old : f32
  } update {
    %i = kernel.read %at (d0, d1) -> (d1) : tensor<1xi64> -> i64
    %v = arith.constant 1.0 : f32
    %always = arith.constant true
    kernel.yield %i, %always, %v : i64, i1, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %b : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.mutated, wrapper.name = "x"}, %at: !wrapper.buffer<[1], [1], i64> {wrapper.name = "at"})
    -> (!wrapper.buffer<[8], [1], f32> {wrapper.name = "y"}) attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64} {
  wrapper.launch @put ins(%x, %at : !wrapper.buffer<[8], [1], f32>, !wrapper.buffer<[1], [1], i64>) outs(%x : !wrapper.buffer<[8], [1], f32>)
  %y = wrapper.output 0 : !wrapper.buffer<[8], [1], f32>
  // expected-error@+1 {{@put updates operand 0, which is not the memory of its result}}
  wrapper.launch @put ins(%x, %at : !wrapper.buffer<[8], [1], f32>, !wrapper.buffer<[1], [1], i64>) outs(%y : !wrapper.buffer<[8], [1], f32>)
}

// -----

// What a round updates was there before the loop, and is no other operand.
wrapper.func private @never(%i: !wrapper.buffer<[4], [1], f32>, %w: !wrapper.buffer<[4], [1], f32>, %x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[], [], i1> attributes {arena_bytes = #sym.expr<0>} {
  %no = wrapper.constant at 0 dense<false> : tensor<i1> to !wrapper.buffer<[], [], i1>
  %y = wrapper.output 0 : !wrapper.buffer<[], [], i1>
  wrapper.copy %no to %y : !wrapper.buffer<[], [], i1> to !wrapper.buffer<[], [], i1>
}
wrapper.func private @keep(%i: !wrapper.buffer<[4], [1], f32>, %w: !wrapper.buffer<[4], [1], f32>, %x: !wrapper.buffer<[4], [1], f32> {wrapper.mutated}) -> !wrapper.buffer<[4], [1], f32> attributes {arena_bytes = #sym.expr<0>} {
  wrapper.copy %w to %x : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %i to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}
wrapper.program @main(%i: !wrapper.buffer<[4], [1], f32> {wrapper.name = "i"}, %w: !wrapper.buffer<[4], [1], f32> {wrapper.name = "w"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<192>, weights_bytes = 64 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  %spare = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  %flag = wrapper.alloc at 64 : !wrapper.buffer<[], [], i1>
  %x = wrapper.alloc at 128 : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{reads buffer 0, which is not written or a part of it is not}}
  wrapper.while @never do @keep carried(%i : !wrapper.buffer<[4], [1], f32>) ins(%w, %x : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>)
      spare(%spare : !wrapper.buffer<[4], [1], f32>) flag(%flag : !wrapper.buffer<[], [], i1>)
}

// -----

// What a round updates was there before the loop, and is no other operand.
wrapper.func private @never(%i: !wrapper.buffer<[4], [1], f32>, %w: !wrapper.buffer<[4], [1], f32>, %x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[], [], i1> attributes {arena_bytes = #sym.expr<0>} {
  %no = wrapper.constant at 0 dense<false> : tensor<i1> to !wrapper.buffer<[], [], i1>
  %y = wrapper.output 0 : !wrapper.buffer<[], [], i1>
  wrapper.copy %no to %y : !wrapper.buffer<[], [], i1> to !wrapper.buffer<[], [], i1>
}
wrapper.func private @keep(%i: !wrapper.buffer<[4], [1], f32>, %w: !wrapper.buffer<[4], [1], f32>, %x: !wrapper.buffer<[4], [1], f32> {wrapper.mutated}) -> !wrapper.buffer<[4], [1], f32> attributes {arena_bytes = #sym.expr<0>} {
  wrapper.copy %w to %x : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %i to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}
wrapper.program @main(%i: !wrapper.buffer<[4], [1], f32> {wrapper.name = "i"}, %w: !wrapper.buffer<[4], [1], f32> {wrapper.name = "w"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<192>, weights_bytes = 64 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  %spare = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  %flag = wrapper.alloc at 64 : !wrapper.buffer<[], [], i1>
  %x = wrapper.alloc at 128 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %w to %x : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{gives a buffer that a graph writes for something else, too}}
  wrapper.while @never do @keep carried(%i : !wrapper.buffer<[4], [1], f32>) ins(%x, %x : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>)
      spare(%spare : !wrapper.buffer<[4], [1], f32>) flag(%flag : !wrapper.buffer<[], [], i1>)
}

// -----

// What a round updates was there before the loop, and is no other operand.
wrapper.func private @never(%i: !wrapper.buffer<[4], [1], f32>, %w: !wrapper.buffer<[4], [1], f32>, %x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[], [], i1> attributes {arena_bytes = #sym.expr<0>} {
  %no = wrapper.constant at 0 dense<false> : tensor<i1> to !wrapper.buffer<[], [], i1>
  %y = wrapper.output 0 : !wrapper.buffer<[], [], i1>
  wrapper.copy %no to %y : !wrapper.buffer<[], [], i1> to !wrapper.buffer<[], [], i1>
}
wrapper.func private @keep(%i: !wrapper.buffer<[4], [1], f32>, %w: !wrapper.buffer<[4], [1], f32>, %x: !wrapper.buffer<[4], [1], f32> {wrapper.mutated}) -> !wrapper.buffer<[4], [1], f32> attributes {arena_bytes = #sym.expr<0>} {
  wrapper.copy %w to %x : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %i to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}
wrapper.program @main(%i: !wrapper.buffer<[4], [1], f32> {wrapper.name = "i"}, %w: !wrapper.buffer<[4], [1], f32> {wrapper.name = "w"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<192>, weights_bytes = 64 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  %spare = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  %flag = wrapper.alloc at 64 : !wrapper.buffer<[], [], i1>
  %x = wrapper.alloc at 128 : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{gives a buffer that a graph writes for something else, too}}
  wrapper.while @never do @keep carried(%i : !wrapper.buffer<[4], [1], f32>) ins(%w, %w : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>)
      spare(%spare : !wrapper.buffer<[4], [1], f32>) flag(%flag : !wrapper.buffer<[], [], i1>)
}

// -----

// What a round updates was there before the loop, and is no other operand.
wrapper.func private @never(%i: !wrapper.buffer<[4], [1], f32>, %w: !wrapper.buffer<[4], [1], f32>, %x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[], [], i1> attributes {arena_bytes = #sym.expr<0>} {
  %no = wrapper.constant at 0 dense<false> : tensor<i1> to !wrapper.buffer<[], [], i1>
  %y = wrapper.output 0 : !wrapper.buffer<[], [], i1>
  wrapper.copy %no to %y : !wrapper.buffer<[], [], i1> to !wrapper.buffer<[], [], i1>
}
wrapper.func private @keep(%i: !wrapper.buffer<[4], [1], f32>, %w: !wrapper.buffer<[4], [1], f32>, %x: !wrapper.buffer<[4], [1], f32> {wrapper.mutated}) -> !wrapper.buffer<[4], [1], f32> attributes {arena_bytes = #sym.expr<0>} {
  wrapper.copy %w to %x : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %i to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}
wrapper.program @main(%i: !wrapper.buffer<[4], [1], f32> {wrapper.name = "i"}, %w: !wrapper.buffer<[4], [1], f32> {wrapper.name = "w"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<192>, weights_bytes = 64 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  %spare = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  %flag = wrapper.alloc at 64 : !wrapper.buffer<[], [], i1>
  %x = wrapper.alloc at 128 : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{writes to input 1, which is not mutated}}
  wrapper.while @never do @keep carried(%i : !wrapper.buffer<[4], [1], f32>) ins(%i, %w : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>)
      spare(%spare : !wrapper.buffer<[4], [1], f32>) flag(%flag : !wrapper.buffer<[], [], i1>)
}
