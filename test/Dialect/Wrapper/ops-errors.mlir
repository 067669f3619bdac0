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

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[2], [1], f32>
  // launch_c1
  // expected-error@+1 {{'k' is not a kernel.func}}
  wrapper.launch @k ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a : !wrapper.buffer<[2], [1], f32>)
}

// -----

kernel.func @k(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<2xf32> -> f32
    kernel.yield %a : f32
  } : tensor<2xf32>
  kernel.return %y : tensor<2xf32>
}
wrapper.program @main(%x: !wrapper.buffer<[3], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[2], [1], f32>
  // expected-error@+1 {{gives '!wrapper.buffer<[3], [1], f32>' for a 'tensor<2xf32>' (operands 0)}}
  wrapper.launch @k ins(%x : !wrapper.buffer<[3], [1], f32>) outs(%a : !wrapper.buffer<[2], [1], f32>)
}

// -----

kernel.func @k(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<2xf32> -> f32
    kernel.yield %a : f32
  } : tensor<2xf32>
  kernel.return %y : tensor<2xf32>
}
wrapper.program @main() {
  %a = wrapper.alloc : !wrapper.buffer<[2], [1], f32>
  // expected-error@+1 {{gives 0 operands to @k, which has 1}}
  wrapper.launch @k ins() outs(%a : !wrapper.buffer<[2], [1], f32>)
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2, 2], [2, 1], f32> {wrapper.name = "x"}) {
  %v = wrapper.view %x offset 0 : !wrapper.buffer<[2, 2], [2, 1], f32> -> !wrapper.buffer<[2, 2], [1, 2], f32>
  // launch_c2
  // expected-error@+1 {{buffer '!wrapper.buffer<[2, 2], [1, 2], f32>' is not contiguous}}
  wrapper.launch @k ins() outs(%v : !wrapper.buffer<[2, 2], [1, 2], f32>)
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  // launch_c3
  // expected-error@+1 {{has one buffer for two results}}
  wrapper.launch @k ins() outs(%x, %x : !wrapper.buffer<[2], [1], f32>, !wrapper.buffer<[2], [1], f32>)
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // copy_c1
  // expected-error@+1 {{copies between different sizes or element types}}
  wrapper.copy %x to %a : !wrapper.buffer<[2], [1], f32> to !wrapper.buffer<[3], [1], f32>
}

// -----

wrapper.program @main() {
  // assert_c1
  // expected-error@+1 {{never holds: -1 is below zero}}
  wrapper.assert -1, "no"
}

// -----

// fold_c1
kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (3 - d0) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}
wrapper.program @main() {
  %a = wrapper.constant "w" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  %b = wrapper.constant dense<1.0> : tensor<5xf32> to !wrapper.buffer<[5], [1], f32>
  // expected-error@+1 {{for a 'tensor<4xf32>' (results 0)}}
  wrapper.fold @k ins(%a : !wrapper.buffer<[4], [1], f32>) outs(%b : !wrapper.buffer<[5], [1], f32>)
}

// -----

// fold_c2
kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (3 - d0) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}
wrapper.program @main() {
  %a = wrapper.constant "w" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  %b = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{has an operand that is not a constant}}
  wrapper.fold @k ins(%a : !wrapper.buffer<[4], [1], f32>) outs(%b : !wrapper.buffer<[4], [1], f32>)
}

// -----

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (3 - d0) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}
wrapper.program @main() {
  %a = wrapper.constant "w" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  %b = wrapper.constant "v" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{makes a constant that has a name, is mutated or made twice}}
  wrapper.fold @k ins(%a : !wrapper.buffer<[4], [1], f32>) outs(%b : !wrapper.buffer<[4], [1], f32>)
}

// -----

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (3 - d0) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}
wrapper.program @main() {
  %a = wrapper.constant "w" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  %b = wrapper.constant dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{makes a constant that has a name, is mutated or made twice}}
  wrapper.fold @k ins(%a : !wrapper.buffer<[4], [1], f32>) outs(%b : !wrapper.buffer<[4], [1], f32>)
  wrapper.fold @k ins(%a : !wrapper.buffer<[4], [1], f32>) outs(%b : !wrapper.buffer<[4], [1], f32>)
}

// -----

// reserve_c1
wrapper.program @main() {
  // expected-error@+1 {{segment 0 is not one that a program reserves}}
  wrapper.reserve 0, 64
}

// -----

// define_c1
wrapper.program @main() attributes {symbols = {u0 = {}}} {
  // expected-error@+1 {{needs either a buffer or an expression}}
  wrapper.define "u0"
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], i64> {wrapper.name = "x"})
    attributes {symbols = {u0 = {}}} {
  // expected-error@+1 {{which is not one i64}}
  wrapper.define "u0" from %x : !wrapper.buffer<[2], [1], i64>
}

// -----

// define_c2
wrapper.program @main() attributes {symbols = {u0 = {}}} {
  // expected-error@+1 {{defines u1, which the program lacks}}
  wrapper.define "u1" = 2
}

// -----

// check_c1
wrapper.program @main(%x: !wrapper.buffer<[], [], i64> {wrapper.name = "x"}) {
  // expected-error@+1 {{which is not one i1}}
  wrapper.check %x, "never" : !wrapper.buffer<[], [], i64>
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // extern_call_c1
  // expected-error@+1 {{argument refers to operand 1 of 1}}
  wrapper.extern_call "torch" "lib.op.default" args = [#torch.arg<0>, #torch.arg<1>] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a : !wrapper.buffer<[3], [1], f32>) projection = [0]
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
  wrapper.extern_call "torch" "lib.op.default" args = [#torch.arg<0>] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a : !wrapper.buffer<[3], [1], f32>) projection = []
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // extern_call_c3
  // expected-error@+1 {{projects a return value twice}}
  wrapper.extern_call "torch" "lib.op.default" args = [#torch.arg<0>] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%x, %a : !wrapper.buffer<[2], [1], f32>, !wrapper.buffer<[3], [1], f32>) projection = [2, 2]
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // extern_call_c4
  // expected-error@+1 {{updates a '!wrapper.buffer<[2], [1], f32>' in a '!wrapper.buffer<[3], [1], f32>'}}
  wrapper.extern_call "torch" "lib.op.default" args = [#torch.arg<0>] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a : !wrapper.buffer<[3], [1], f32>) projection = [] updates = [0]
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // extern_call_c5
  // expected-error@+1 {{has 2 names for 1 arguments}}
  wrapper.extern_call "torch" "lib.op.default" args = [#torch.arg<0>] names = ["a", "b"] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a : !wrapper.buffer<[3], [1], f32>) projection = [0]
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // extern_call_c6
  // expected-error@+1 {{has one buffer for two results}}
  wrapper.extern_call "torch" "lib.op.default" args = [#torch.arg<0>] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a, %a : !wrapper.buffer<[3], [1], f32>, !wrapper.buffer<[3], [1], f32>) projection = [0, 1]
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[], [], i64>
  %b = wrapper.alloc : !wrapper.buffer<[], [], i32>
  // extern_call_c7
  // expected-error@+1 {{gives a size as a '!wrapper.buffer<[], [], i32>'}}
  wrapper.extern_call "torch" "lib.op.default" args = [#torch.arg<0>] ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a, %b : !wrapper.buffer<[], [], i64>, !wrapper.buffer<[], [], i32>) projection = [] sizes = [0, 1]
}

// -----

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
