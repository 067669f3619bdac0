// RUN: kiln-opt %s --split-input-file --verify-diagnostics

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // extern_call_c1
  // expected-error@+1 {{argument refers to operand 1 of 1}}
  wrapper.extern_call "torch" "lib.op.default" args = [#sym.arg<0>, #sym.arg<1>] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a : !wrapper.buffer<[3], [1], f32>) projection = [0]
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // extern_call_c1
  // expected-error@+1 {{operand 0 is not used by the arguments}}
  wrapper.extern_call "torch" "lib.op.default" args = [unit] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a : !wrapper.buffer<[3], [1], f32>) projection = [0]
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // extern_call_c2
  // expected-error@+1 {{has 0 projections, 0 sizes and 0 updates for 1 results}}
  wrapper.extern_call "torch" "lib.op.default" args = [#sym.arg<0>] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a : !wrapper.buffer<[3], [1], f32>) projection = []
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // extern_call_c3
  // expected-error@+1 {{projects a return value twice}}
  wrapper.extern_call "torch" "lib.op.default" args = [#sym.arg<0>] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%x, %a : !wrapper.buffer<[2], [1], f32>, !wrapper.buffer<[3], [1], f32>) projection = [2, 2]
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // extern_call_c4
  // expected-error@+1 {{updates a '!wrapper.buffer<[2], [1], f32>' in a '!wrapper.buffer<[3], [1], f32>'}}
  wrapper.extern_call "torch" "lib.op.default" args = [#sym.arg<0>] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a : !wrapper.buffer<[3], [1], f32>) projection = [] updates = [0]
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // extern_call_c5
  // expected-error@+1 {{has 2 names for 1 arguments}}
  wrapper.extern_call "torch" "lib.op.default" args = [#sym.arg<0>] names = ["a", "b"] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a : !wrapper.buffer<[3], [1], f32>) projection = [0]
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // extern_call_c6
  // expected-error@+1 {{has one buffer for two results}}
  wrapper.extern_call "torch" "lib.op.default" args = [#sym.arg<0>] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a, %a : !wrapper.buffer<[3], [1], f32>, !wrapper.buffer<[3], [1], f32>) projection = [0, 1]
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[], [], i64>
  %b = wrapper.alloc : !wrapper.buffer<[], [], i32>
  // extern_call_c7
  // expected-error@+1 {{gives a size as a '!wrapper.buffer<[], [], i32>'}}
  wrapper.extern_call "torch" "lib.op.default" args = [#sym.arg<0>] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a, %b : !wrapper.buffer<[], [], i64>, !wrapper.buffer<[], [], i32>) projection = [] sizes = [0, 1]
}
