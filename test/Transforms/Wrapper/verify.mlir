// RUN: kiln-opt %s --wrapper-verify --split-input-file --verify-diagnostics

// v1
// expected-error@+1 {{memory and constants have no places yet}}
wrapper.program @main() {
  wrapper.comment "nothing"
}

// -----

wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 64 : i64} {
  // expected-error@+1 {{has no place in the arena}}
  %a = wrapper.alloc : !wrapper.buffer<[1], [1], f32>
}

// -----

wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 64 : i64} {
  // expected-error@+1 {{has no place in the weights}}
  %a = wrapper.constant dense<1.0> : tensor<f32> to !wrapper.buffer<[], [], f32>
}

// -----

// v2
wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 64 : i64} {
  // expected-error@+1 {{lies outside the arena}}
  %a = wrapper.alloc at 64 : !wrapper.buffer<[1], [1], f32>
}

// -----

wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 64 : i64} {
  // expected-error@+1 {{lies outside the weights}}
  %a = wrapper.constant at 64 dense<1.0> : tensor<f32> to !wrapper.buffer<[], [], f32>
}

// -----

// v3
wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 64 : i64} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[1], [1], f32>
  %v = wrapper.view %a offset 0 : !wrapper.buffer<[1], [1], f32> -> !wrapper.buffer<[], [], f32>
  // expected-note@+1 {{here}}
  wrapper.free %a : !wrapper.buffer<[1], [1], f32>
  // expected-error@+1 {{uses a buffer whose memory was freed}}
  wrapper.copy %v to %v : !wrapper.buffer<[], [], f32> to !wrapper.buffer<[], [], f32>
}

// -----

// v4
wrapper.program @main() attributes {arena_bytes = #sym.expr<128>, weights_bytes = 64 : i64} {
  // expected-note@+1 {{this one}}
  %a = wrapper.alloc at 0 : !wrapper.buffer<[17], [1], f32>
  // expected-error@+1 {{overlaps a buffer that is alive}}
  %b = wrapper.alloc at 64 : !wrapper.buffer<[1], [1], f32>
}

// -----

// v5
// expected-error@+1 {{output 1 is never written}}
wrapper.program @main(%x: !wrapper.buffer<[1], [1], f32> {wrapper.name = "x"})
    -> (none {wrapper.name = "n"}, !wrapper.buffer<[1], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<128>, weights_bytes = 64 : i64} {
  %y = wrapper.output 1 : !wrapper.buffer<[1], [1], f32>
}

// -----

// v6
wrapper.program @main(%x: !wrapper.buffer<[1], [1], f32> {wrapper.name = "x"})
    attributes {arena_bytes = #sym.expr<128>, weights_bytes = 64 : i64} {
  %a = wrapper.constant at 0 dense<1.0> : tensor<1xf32> to !wrapper.buffer<[1], [1], f32>
  // expected-error@+1 {{writes to input 0, which is not mutated}}
  wrapper.copy %a to %x : !wrapper.buffer<[1], [1], f32> to !wrapper.buffer<[1], [1], f32>
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[1], [1], f32> {wrapper.name = "x"})
    attributes {arena_bytes = #sym.expr<128>, weights_bytes = 64 : i64} {
  %a = wrapper.constant at 0 dense<1.0> : tensor<1xf32> to !wrapper.buffer<[1], [1], f32>
  // expected-error@+1 {{writes to a constant that is not mutated}}
  wrapper.copy %x to %a : !wrapper.buffer<[1], [1], f32> to !wrapper.buffer<[1], [1], f32>
}

// -----

// Nothing to complain about.
wrapper.program @main(%x: !wrapper.buffer<[1], [1], f32> {wrapper.name = "x", wrapper.mutated})
    -> (!wrapper.buffer<[1], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64>, weights_bytes = 64 : i64} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[1], [1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[1], [1], f32>
  wrapper.copy %x to %a : !wrapper.buffer<[1], [1], f32> to !wrapper.buffer<[1], [1], f32>
  wrapper.copy %a to %y : !wrapper.buffer<[1], [1], f32> to !wrapper.buffer<[1], [1], f32>
  %b = wrapper.reuse %a : !wrapper.buffer<[1], [1], f32> -> !wrapper.buffer<[1], [1], f32>
  wrapper.free %b : !wrapper.buffer<[1], [1], f32>
  %c = wrapper.alloc at 0 : !wrapper.buffer<[1], [1], f32>
  wrapper.copy %y to %x : !wrapper.buffer<[1], [1], f32> to !wrapper.buffer<[1], [1], f32>
}

// -----

// v7
kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (3 - d0) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}
wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 64 : i64} {
  %a = wrapper.constant "w" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  %b = wrapper.constant dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  %c = wrapper.constant at 0 dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{reads a constant that is nowhere}}
  wrapper.fold @k ins(%b : !wrapper.buffer<[4], [1], f32>) outs(%c : !wrapper.buffer<[4], [1], f32>)
  wrapper.fold @k ins(%a : !wrapper.buffer<[4], [1], f32>) outs(%b : !wrapper.buffer<[4], [1], f32>)
}

// -----

// v1
wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 64 : i64} {
  // expected-error@+1 {{is in a segment that is not reserved}}
  %a = wrapper.alloc at 0 in 1 : !wrapper.buffer<[1], [1], f32>
}

// -----

wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 64 : i64} {
  wrapper.reserve 1, 64
  // expected-error@+1 {{reserves a segment again}}
  wrapper.reserve 1, 128
}

// -----

// A segment of one function is not another's.
wrapper.func private @f() attributes {arena_bytes = #sym.expr<0>} {
  wrapper.reserve 1, 64
}
wrapper.func private @g() attributes {arena_bytes = #sym.expr<0>} {
  // expected-error@+1 {{reserves a segment again}}
  wrapper.reserve 1, 64
}
wrapper.program @main() attributes {arena_bytes = #sym.expr<64>, weights_bytes = 64 : i64} {
  wrapper.call @f ins() outs()
  wrapper.call @g ins() outs()
}

// -----

// v2
wrapper.program @main() attributes {arena_bytes = #sym.expr<640>, weights_bytes = 64 : i64} {
  wrapper.reserve 1, 64
  // expected-error@+1 {{lies outside the arena}}
  %a = wrapper.alloc at 64 in 1 : !wrapper.buffer<[1], [1], f32>
}

// -----

// v8
wrapper.program @main()
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64, symbols = {u0 = {}}} {
  // expected-error@+1 {{uses symbol u0 before it is defined}}
  wrapper.reserve 1, 64*u0
  wrapper.define "u0" = 2
}

// -----

// v9
wrapper.func private @f(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[4], [1], f32>
    attributes {arena_bytes = #sym.expr<128>} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"})
    -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64>, weights_bytes = 0 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  %w = wrapper.alloc at 0 : !wrapper.buffer<[64], [1], i8>
  // expected-error@+1 {{the workspace is too small for @f}}
  wrapper.call @f ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>)
      workspace(%w : !wrapper.buffer<[64], [1], i8>)
}

// -----

wrapper.program @main()
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64, symbols = {u0 = {}}} {
  wrapper.define "u0" = 2
  // expected-error@+1 {{defines symbol u0 again}}
  wrapper.define "u0" = 3
}

// -----

wrapper.func private @f(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[4], [1], f32>
    attributes {arena_bytes = #sym.expr<128>} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"})
    -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64>, weights_bytes = 0 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{the workspace is too small for @f}}
  wrapper.call @f ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>)
}

// -----

// Segments overlap nothing.
wrapper.program @main()
    attributes {arena_bytes = #sym.expr<64>, weights_bytes = 0 : i64, symbols = {u0 = {}}} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[1], [1], f32>
  wrapper.define "u0" = 2
  wrapper.reserve 1, 64
  %b = wrapper.alloc at 0 in 1 : !wrapper.buffer<[1], [1], f32>
}
