// RUN: kiln-opt %s --split-input-file --verify-diagnostics

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
  %a = wrapper.alloc : !wrapper.buffer<[2], [1], f32>
  // launch_c4
  // expected-error@+1 {{has 1 alternatives and 0 expressions for them}}
  wrapper.launch @k ins() outs(%a : !wrapper.buffer<[2], [1], f32>) {alternatives = [@k]}
}

// -----

kernel.func @k(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<2xf32> -> f32
    kernel.yield %a : f32
  } : tensor<2xf32>
  kernel.return %y : tensor<2xf32>
}
wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[2], [1], f32>
  // expected-error@+1 {{'l' is not a kernel.func}}
  wrapper.launch @k ins(%x : !wrapper.buffer<[2], [1], f32>) outs(%a : !wrapper.buffer<[2], [1], f32>)
      {alternatives = [@l], when = [#sym.expr<1>]}
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

module attributes {sym.symbols = {u0 = {min = 0}, u1 = {min = 0}}} {
  kernel.func @k(%x: tensor<?xf32, #sym.shape<[u0]>>) -> tensor<?xf32, #sym.shape<[u0]>> {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (d0) : tensor<?xf32, #sym.shape<[u0]>> -> f32
      kernel.yield %a : f32
    } : tensor<?xf32, #sym.shape<[u0]>>
    kernel.return %y : tensor<?xf32, #sym.shape<[u0]>>
  }
  wrapper.program @main(%x: !wrapper.buffer<[u1], [1], f32> {wrapper.name = "x"}) attributes {symbols = {u1 = {min = 0}}} {
    %a = wrapper.alloc : !wrapper.buffer<[u1], [1], f32>
    wrapper.launch @k ins(%x : !wrapper.buffer<[u1], [1], f32>) outs(%a : !wrapper.buffer<[u1], [1], f32>) {symbols = {u0 = #sym.expr<u1>}}
    // launch_c1
    // expected-error@+1 {{gives '!wrapper.buffer<[u1], [1], f32>' for a 'tensor<?xf32, #sym.shape<[u0]>>' (operands 0)}}
    wrapper.launch @k ins(%x : !wrapper.buffer<[u1], [1], f32>) outs(%a : !wrapper.buffer<[u1], [1], f32>) {symbols = {u0 = #sym.expr<2*u1>}}
  }
}

// -----

wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}) {
  %a = wrapper.alloc : !wrapper.buffer<[2], [1], f32>
  // launch_c5
  // expected-error@+1 {{has 3 : i64 for the kernel's symbol s0}}
  wrapper.launch @k ins() outs(%a : !wrapper.buffer<[2], [1], f32>) {symbols = {s0 = 3}}
}
