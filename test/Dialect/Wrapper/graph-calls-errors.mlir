// RUN: kiln-opt %s --split-input-file --verify-diagnostics

// func_c1
// expected-error@+1 {{takes or gives '!wrapper.buffer<[2, 2], [1, 2], f32>', which is not a contiguous buffer}}
wrapper.func private @f(%x: !wrapper.buffer<[2, 2], [1, 2], f32>) {
  wrapper.comment "nothing"
}

// -----

// func_c2
// expected-error@+1 {{uses symbol s1, which the program lacks}}
wrapper.func private @f(%x: !wrapper.buffer<[s1], [1], f32>) {
  wrapper.comment "nothing"
}
wrapper.program @main() attributes {symbols = {s0 = {}}} {
  wrapper.comment "nothing"
}

// -----

// call_c1
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  // expected-error@+1 {{'g' is not a wrapper.func}}
  wrapper.call @g ins(%x : !wrapper.buffer<[8], [1], f32>) outs(%a : !wrapper.buffer<[8], [1], f32>)
}

// -----

// call_c1
wrapper.func private @f(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32> {
  wrapper.comment "not planned yet"
}
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  // expected-error@+1 {{runs @f as '() -> !wrapper.buffer<[8], [1], f32>', it is '(!wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32>'}}
  wrapper.call @f ins() outs(%a : !wrapper.buffer<[8], [1], f32>)
}

// -----

// call_c2
wrapper.func private @f(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32> {
  wrapper.comment "not planned yet"
}
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  // expected-error@+1 {{has one buffer for a result and for something else}}
  wrapper.call @f ins(%a : !wrapper.buffer<[8], [1], f32>) outs(%a : !wrapper.buffer<[8], [1], f32>)
}

// -----

// call_c3
wrapper.func private @f(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32> {
  wrapper.comment "not planned yet"
}
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  %w = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  // expected-error@+1 {{workspace is '!wrapper.buffer<[8], [1], f32>', expected a vector of i8}}
  wrapper.call @f ins(%x : !wrapper.buffer<[8], [1], f32>) outs(%a : !wrapper.buffer<[8], [1], f32>)
      workspace(%w : !wrapper.buffer<[8], [1], f32>)
}

// -----

// if_c4
wrapper.func private @f(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32> {
  wrapper.comment "not planned yet"
}
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  // expected-error@+1 {{needs either a predicate or an expression}}
  wrapper.if then @f else @f ins(%x : !wrapper.buffer<[8], [1], f32>)
      outs(%a : !wrapper.buffer<[8], [1], f32>)
}

// -----

// if_c4
wrapper.func private @f(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32> {
  wrapper.comment "not planned yet"
}
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  // expected-error@+1 {{predicate is '!wrapper.buffer<[8], [1], f32>', expected one bool}}
  wrapper.if %x : !wrapper.buffer<[8], [1], f32> then @f else @f
      ins(%x : !wrapper.buffer<[8], [1], f32>) outs(%a : !wrapper.buffer<[8], [1], f32>)
}

// -----

// if_c1
wrapper.func private @f(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32> {
  wrapper.comment "not planned yet"
}
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  // expected-error@+1 {{runs @f as}}
  wrapper.if when 1 then @f else @f ins() outs(%a : !wrapper.buffer<[8], [1], f32>)
}

// -----

// while_c4
wrapper.func private @go(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[], [], i1> {
  wrapper.comment "not planned yet"
}
wrapper.func private @f(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32> {
  wrapper.comment "not planned yet"
}
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  %b = wrapper.alloc : !wrapper.buffer<[8], [1], f64>
  %f = wrapper.alloc : !wrapper.buffer<[], [], i1>
  // expected-error@+1 {{carried, outs and spare differ in types}}
  wrapper.while @go do @f carried(%x : !wrapper.buffer<[8], [1], f32>) ins()
      outs(%a : !wrapper.buffer<[8], [1], f32>) spare(%b : !wrapper.buffer<[8], [1], f64>)
      flag(%f : !wrapper.buffer<[], [], i1>)
}

// -----

// while_c5
wrapper.func private @go(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[], [], i1> {
  wrapper.comment "not planned yet"
}
wrapper.func private @f(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32> {
  wrapper.comment "not planned yet"
}
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  %b = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  %f = wrapper.alloc : !wrapper.buffer<[2], [1], i1>
  // expected-error@+1 {{flag is '!wrapper.buffer<[2], [1], i1>', expected one bool}}
  wrapper.while @go do @f carried(%x : !wrapper.buffer<[8], [1], f32>) ins()
      outs(%a : !wrapper.buffer<[8], [1], f32>) spare(%b : !wrapper.buffer<[8], [1], f32>)
      flag(%f : !wrapper.buffer<[2], [1], i1>)
}

// -----

// while_c1
wrapper.func private @go(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[], [], i1> {
  wrapper.comment "not planned yet"
}
wrapper.func private @f(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32> {
  wrapper.comment "not planned yet"
}
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  %b = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  %f = wrapper.alloc : !wrapper.buffer<[], [], i1>
  // expected-error@+1 {{runs @f as}}
  wrapper.while @f do @f carried(%x : !wrapper.buffer<[8], [1], f32>) ins()
      outs(%a : !wrapper.buffer<[8], [1], f32>) spare(%b : !wrapper.buffer<[8], [1], f32>)
      flag(%f : !wrapper.buffer<[], [], i1>)
}

// -----

// for_c4
wrapper.func private @f(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32> {
  wrapper.comment "not planned yet"
}
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  // expected-error@+1 {{carried, the first outs and spare differ in types}}
  wrapper.for @f length 8 carried(%x : !wrapper.buffer<[8], [1], f32>) slices() ins()
      outs(%a : !wrapper.buffer<[8], [1], f32>) spare()
}

// -----

// for_c5
wrapper.func private @f(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32> {
  wrapper.comment "not planned yet"
}
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  // expected-error@+1 {{slices '!wrapper.buffer<[8], [1], f32>' into 7}}
  wrapper.for @f length 7 carried() slices(%x : !wrapper.buffer<[8], [1], f32>) ins()
      outs(%a : !wrapper.buffer<[8], [1], f32>) spare()
}

// -----

// for_c1
wrapper.func private @f(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32> {
  wrapper.comment "not planned yet"
}
wrapper.program @main(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  // expected-error@+1 {{runs @f as '(!wrapper.buffer<[], [], f32>) -> !wrapper.buffer<[], [], f32>'}}
  wrapper.for @f length 8 carried() slices(%x : !wrapper.buffer<[8], [1], f32>) ins()
      outs(%a : !wrapper.buffer<[8], [1], f32>) spare()
}

// -----

// call_c1, of what the function gives
wrapper.func private @f() -> (!wrapper.buffer<[u0], [1], f32> {wrapper.given}) {
  wrapper.comment "not planned yet"
}
wrapper.program @main() attributes {symbols = {u0 = {}}} {
  // expected-error@+1 {{runs @f as '() -> !wrapper.buffer<[], [], f32>', it is '() -> !wrapper.buffer<[u0], [1], f32>'}}
  %y = wrapper.call @f ins() outs() gives(!wrapper.buffer<[], [], f32>)
}

// -----

// output_c1
wrapper.func private @f() -> (!wrapper.buffer<[4], [1], f32> {wrapper.given}) {
  // expected-error@+1 {{output 0 is memory of the function's own}}
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
}

// -----

// give_c1
wrapper.func private @f() -> !wrapper.buffer<[4], [1], f32> {
  %y = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{gives a '!wrapper.buffer<[4], [1], f32>', which is not what result 0 is}}
  wrapper.give %y as 0 : !wrapper.buffer<[4], [1], f32>
}

// -----

// give_c1
wrapper.func private @f(%x: !wrapper.buffer<[4], [1], f32>) -> (!wrapper.buffer<[4], [1], f32> {wrapper.given}) {
  // expected-error@+1 {{operand is neither allocated nor reused memory}}
  wrapper.give %x as 0 : !wrapper.buffer<[4], [1], f32>
}
