// RUN: kiln-opt %s --wrapper-solve-symbols --split-input-file --verify-diagnostics

// expected-error@+1 {{symbol s0 cannot be computed from the shapes of the inputs: size 1 of input "x" is s0*s0, which several values give}}
wrapper.program @main_c1(%x: !wrapper.buffer<[2, s0*s0], [s0*s0, 1], f32> {wrapper.name = "x"})
    attributes {symbols = {s0 = {}}} {
}

// -----

// expected-error@+1 {{symbol s0 cannot be computed from the shapes of the inputs: size 0 of input "x" is s0*s1, and nothing gives s1}}
wrapper.program @main_c1(%x: !wrapper.buffer<[s0*s1], [1], f32> {wrapper.name = "x"})
    attributes {symbols = {s0 = {}, s1 = {}}} {
}

// -----

// expected-error@+1 {{symbol s0 cannot be computed from the shapes of the inputs: size 0 of input "x" is s0 floordiv 2, which several values give}}
wrapper.program @main_c1(%x: !wrapper.buffer<[s0 floordiv 2], [1], f32> {wrapper.name = "x"})
    attributes {symbols = {s0 = {}}} {
}

// -----

// expected-error@+1 {{symbol s0 cannot be computed from the shapes of the inputs: none has it}}
wrapper.program @main_c1(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"})
    attributes {symbols = {s0 = {}}} {
  %a = wrapper.alloc : !wrapper.buffer<[s0], [1], f32>
}
