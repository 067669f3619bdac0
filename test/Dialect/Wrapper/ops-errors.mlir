// RUN: kiln-opt %s --split-input-file --verify-diagnostics

// buffer_c1
// expected-error@+1 {{buffer has 2 sizes and 1 strides}}
func.func private @buffer_c1(!wrapper.buffer<[2, 3], [1], f32>)

// -----

// buffer_c2
// expected-error@+1 {{size -2 is negative or depends on a loop dim}}
func.func private @buffer_c2(!wrapper.buffer<[-2], [1], f32>)

// -----

// expected-error@+1 {{stride d0 is negative or depends on a loop dim}}
func.func private @buffer_c2(!wrapper.buffer<[2], [d0], f32>)

// -----

// buffer_c3
// expected-error@+1 {{'i4' has no size in whole bytes}}
func.func private @buffer_c3(!wrapper.buffer<[2], [1], i4>)

// -----

// program_c1
// expected-error@+1 {{input 0 is not a contiguous buffer}}
wrapper.program @main(%x: !wrapper.buffer<[2, 2], [1, 2], f32> {wrapper.name = "x"}) {
  wrapper.comment "nothing"
}

// -----

// expected-error@+1 {{output 0 is neither a buffer nor none}}
wrapper.program @main() -> (i32 {wrapper.name = "x"}) {
  wrapper.comment "nothing"
}

// -----

// program_c2
// expected-error@+1 {{input 0 has no wrapper.name}}
wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32>) {
  wrapper.comment "nothing"
}

// -----

// program_c3
wrapper.program @main() attributes {symbols = {s0 = {}}} {
  // expected-error@+1 {{uses symbol s1, which the program lacks}}
  %a = wrapper.alloc : !wrapper.buffer<[s0, s1], [s1, 1], f32>
}

// -----

wrapper.program @main() {
  // expected-error@+1 {{uses symbol s1, which the program lacks}}
  wrapper.assert s1 - 1, "positive"
}

// -----

wrapper.program @main() {
  // constant_c1
  // expected-error@+1 {{value of type 'tensor<2xf32>' in '!wrapper.buffer<[3], [1], f32>'}}
  %c = wrapper.constant dense<1.0> : tensor<2xf32> to !wrapper.buffer<[3], [1], f32>
}

// -----

wrapper.program @main() {
  // constant_c2
  // expected-error@+1 {{offset 32 is not a multiple of 64}}
  %c = wrapper.constant at 32 dense<1.0> : tensor<2xf32> to !wrapper.buffer<[2], [1], f32>
}

// -----

// output_c1
wrapper.program @main() -> (!wrapper.buffer<[2], [1], f32> {wrapper.name = "y"}) {
  // expected-error@+1 {{@main has 1 outputs}}
  %y = wrapper.output 1 : !wrapper.buffer<[2], [1], f32>
}

// -----

wrapper.program @main() -> (none {wrapper.name = "y"}) {
  // expected-error@+1 {{output 0 is None}}
  %y = wrapper.output 0 : !wrapper.buffer<[2], [1], f32>
}

// -----

wrapper.program @main() -> (!wrapper.buffer<[2], [1], f32> {wrapper.name = "y"}) {
  // expected-error@+1 {{output 0 is a '!wrapper.buffer<[2], [1], f32>'}}
  %y = wrapper.output 0 : !wrapper.buffer<[3], [1], f32>
}

// -----

wrapper.program @main() {
  // alloc_c1
  // expected-error@+1 {{buffer is not contiguous}}
  %a = wrapper.alloc : !wrapper.buffer<[2, 2], [1, 2], f32>
}

// -----

// free_c1
wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  // expected-error@+1 {{operand is neither allocated nor reused memory}}
  wrapper.free %x : !wrapper.buffer<[2], [1], f32>
}

// -----

// reuse_c1
wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  // expected-error@+1 {{operand is neither allocated nor reused memory}}
  %r = wrapper.reuse %x : !wrapper.buffer<[2], [1], f32> -> !wrapper.buffer<[2], [1], f32>
}

// -----

wrapper.program @main() {
  %a = wrapper.alloc : !wrapper.buffer<[2], [1], f32>
  // reuse_c2
  // expected-error@+1 {{needs 16 contiguous bytes of 8}}
  %r = wrapper.reuse %a : !wrapper.buffer<[2], [1], f32> -> !wrapper.buffer<[2], [1], f64>
}

// -----

wrapper.program @main() {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  // view_c1
  // expected-error@+1 {{lies outside the viewed buffer}}
  %v = wrapper.view %a offset 5 : !wrapper.buffer<[8], [1], f32> -> !wrapper.buffer<[4], [1], f32>
}

// -----

wrapper.program @main() {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  // expected-error@+1 {{lies outside the viewed buffer}}
  %v = wrapper.view %a offset -1 : !wrapper.buffer<[8], [1], f32> -> !wrapper.buffer<[4], [1], f32>
}
