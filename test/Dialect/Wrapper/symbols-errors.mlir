// RUN: kiln-opt %s --split-input-file --verify-diagnostics

wrapper.program @bind_c1(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"}) attributes {symbols = {s0 = {}}} {
  %a = wrapper.alloc : !wrapper.buffer<[s0], [1], f32>
  // expected-error@+1 {{reads what is not an input}}
  wrapper.bind "s0" from %a size 0 as s0 : !wrapper.buffer<[s0], [1], f32>
}

// -----

wrapper.program @bind_c1(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"}) attributes {symbols = {s0 = {}}} {
  // expected-error@+1 {{reads both a size and a stride}}
  wrapper.bind "s0" from %x size 0 stride 0 as s0 : !wrapper.buffer<[s0], [1], f32>
}

// -----

wrapper.program @bind_c1(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"}) attributes {symbols = {s0 = {}}} {
  // expected-error@+1 {{reads dim 1 of}}
  wrapper.bind "s0" from %x size 1 as s0 : !wrapper.buffer<[s0], [1], f32>
}

// -----

wrapper.program @bind_c1(%x: !wrapper.buffer<[], [], f64> {wrapper.name = "x"}) attributes {symbols = {s0 = {}}} {
  // expected-error@+1 {{reads a number from}}
  wrapper.bind "s0" from %x as s0 : !wrapper.buffer<[], [], f64>
}

// -----

wrapper.program @bind_c2(%x: !wrapper.buffer<[s0*s0], [1], f32> {wrapper.name = "x"}) attributes {symbols = {s0 = {}}} {
  // expected-error@+1 {{cannot solve s0*s0 for s0}}
  wrapper.bind "s0" from %x size 0 as s0*s0 : !wrapper.buffer<[s0*s0], [1], f32>
}

// -----

wrapper.program @bind_c3(%x: !wrapper.buffer<[s0*s1], [1], f32> {wrapper.name = "x"})
    attributes {symbols = {s0 = {}, s1 = {}}} {
  // expected-error@+1 {{needs s1, which is not bound yet}}
  wrapper.bind "s0" from %x size 0 as s0*s1 : !wrapper.buffer<[s0*s1], [1], f32>
}

// -----

wrapper.program @bind_c4(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"}) attributes {symbols = {s0 = {}}} {
  wrapper.bind "s0" from %x size 0 as s0 : !wrapper.buffer<[s0], [1], f32>
  // expected-error@+1 {{binds s0 again}}
  wrapper.bind "s0" from %x size 0 as s0 : !wrapper.buffer<[s0], [1], f32>
}
