// RUN: kiln-opt %s --wrapper-verify --wrapper-interpret-memory -o /dev/null 2>&1 | FileCheck %s
// RUN: kiln-opt %s --wrapper-interpret-memory="runs=2 symbols=s0=5,s1=4" -o /dev/null 2>&1 | FileCheck %s --check-prefix=GIVEN
// RUN: not kiln-opt %s --wrapper-interpret-memory="symbols=s0=5,s1=6" -o /dev/null 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: not kiln-opt %s --wrapper-interpret-memory="symbols=s0" -o /dev/null 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: not kiln-opt %s --wrapper-interpret-memory="steps=3" -o /dev/null 2>&1 | FileCheck %s --check-prefix=REFUSED

// Values are found with which s0 is greater than s1; every run does all of this.
// CHECK: remark: 8 of 8 runs come to the end
// GIVEN: remark: 2 of 2 runs come to the end, in 55 steps
// REFUSED: error: no run comes to its end
// TEXT: error: expected NAME=VALUE, got 's0'
wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"}, %z: !wrapper.buffer<[s1], [1], f32> {wrapper.name = "z"},
                      %n: !wrapper.buffer<[], [], i64> {wrapper.name = "n"}, %p: !wrapper.buffer<[], [], i1> {wrapper.name = "p"})
    -> (!wrapper.buffer<[s0 + s1], [1], f32> {wrapper.name = "joined"}, !wrapper.buffer<[4], [1], f32> {wrapper.name = "looped"},
        !wrapper.buffer<[3, 4], [4, 1], f32> {wrapper.name = "stacked"}, !wrapper.buffer<[u0], [1], f32> {wrapper.name = "given"})
    attributes {arena_bytes = #sym.expr<128*((s0 + s1) ceildiv 16) + 384>, weights_bytes = 64 : i64,
                symbols = {s0 = {min = 2}, s1 = {min = 0, max = 4}, u0 = {min = 0, max = 9}}} {
  wrapper.assert s0 - s1 - 1, "more"
  // Two parts of one buffer, and a kernel in its place.
  %a = wrapper.alloc at 384 : !wrapper.buffer<[s0 + s1], [1], f32>
  %front = wrapper.view %a offset 0 : !wrapper.buffer<[s0 + s1], [1], f32> -> !wrapper.buffer<[s0], [1], f32>
  wrapper.copy %x to %front : !wrapper.buffer<[s0], [1], f32> to !wrapper.buffer<[s0], [1], f32>
  %back = wrapper.view %a offset s0 : !wrapper.buffer<[s0 + s1], [1], f32> -> !wrapper.buffer<[s1], [1], f32>
  wrapper.copy %z to %back : !wrapper.buffer<[s1], [1], f32> to !wrapper.buffer<[s1], [1], f32>
  %v = wrapper.view %a offset 0 : !wrapper.buffer<[s0 + s1], [1], f32> -> !wrapper.buffer<[s0 + s1], [1], f32>
  wrapper.launch @square ins(%a : !wrapper.buffer<[s0 + s1], [1], f32>) outs(%v : !wrapper.buffer<[s0 + s1], [1], f32>)
  // Memory that another buffer has had.
  %b = wrapper.reuse %a : !wrapper.buffer<[s0 + s1], [1], f32> -> !wrapper.buffer<[s0 + s1], [1], i32>
  wrapper.free %b : !wrapper.buffer<[s0 + s1], [1], i32>
  %joined = wrapper.output 0 : !wrapper.buffer<[s0 + s1], [1], f32>
  %c = wrapper.alloc at 64*((s0 + s1) ceildiv 16) + 384 : !wrapper.buffer<[s0 + s1], [1], f32>
  %front2 = wrapper.view %c offset 0 : !wrapper.buffer<[s0 + s1], [1], f32> -> !wrapper.buffer<[s0], [1], f32>
  wrapper.copy %x to %front2 : !wrapper.buffer<[s0], [1], f32> to !wrapper.buffer<[s0], [1], f32>
  %back2 = wrapper.view %c offset s0 : !wrapper.buffer<[s0 + s1], [1], f32> -> !wrapper.buffer<[s1], [1], f32>
  wrapper.copy %z to %back2 : !wrapper.buffer<[s1], [1], f32> to !wrapper.buffer<[s1], [1], f32>
  wrapper.launch @square ins(%c : !wrapper.buffer<[s0 + s1], [1], f32>) outs(%joined : !wrapper.buffer<[s0 + s1], [1], f32>)
  // Nested graphs with a workspace.
  %w = wrapper.constant at 0 dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  %looped = wrapper.output 1 : !wrapper.buffer<[4], [1], f32>
  %spare = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  %flag = wrapper.alloc at 64 : !wrapper.buffer<[], [], i1>
  %ws = wrapper.alloc at 128 : !wrapper.buffer<[64], [1], i8>
  wrapper.while @positive do @twice carried(%w : !wrapper.buffer<[4], [1], f32>) ins() outs(%looped : !wrapper.buffer<[4], [1], f32>)
      spare(%spare : !wrapper.buffer<[4], [1], f32>) flag(%flag : !wrapper.buffer<[], [], i1>) workspace(%ws : !wrapper.buffer<[64], [1], i8>)
  wrapper.free %flag : !wrapper.buffer<[], [], i1>
  %stacked = wrapper.output 2 : !wrapper.buffer<[3, 4], [4, 1], f32>
  wrapper.for @twice length 3 carried() slices() ins(%looped : !wrapper.buffer<[4], [1], f32>) outs(%stacked : !wrapper.buffer<[3, 4], [4, 1], f32>)
      spare() workspace(%ws : !wrapper.buffer<[64], [1], i8>)
  %chosen = wrapper.alloc at 64 : !wrapper.buffer<[4], [1], f32>
  wrapper.if %p : !wrapper.buffer<[], [], i1> then @same else @twice ins(%w : !wrapper.buffer<[4], [1], f32>)
      outs(%chosen : !wrapper.buffer<[4], [1], f32>) workspace(%ws : !wrapper.buffer<[64], [1], i8>)
  %g = wrapper.call @rows ins(%n : !wrapper.buffer<[], [], i64>) outs() gives(!wrapper.buffer<[u0], [1], f32>)
  %given = wrapper.output 3 : !wrapper.buffer<[u0], [1], f32>
  wrapper.copy %g to %given : !wrapper.buffer<[u0], [1], f32> to !wrapper.buffer<[u0], [1], f32>
}

wrapper.func private @same(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[4], [1], f32> attributes {arena_bytes = #sym.expr<0>} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}

wrapper.func private @twice(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[4], [1], f32> attributes {arena_bytes = #sym.expr<64>} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %a : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %a to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
  wrapper.free %a : !wrapper.buffer<[4], [1], f32>
}

wrapper.func private @positive(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[], [], i1> attributes {arena_bytes = #sym.expr<0>} {
  %y = wrapper.output 0 : !wrapper.buffer<[], [], i1>
  wrapper.launch @is_positive ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[], [], i1>)
}

wrapper.func private @rows(%n: !wrapper.buffer<[], [], i64>) -> (!wrapper.buffer<[u0], [1], f32> {wrapper.given}) attributes {arena_bytes = #sym.expr<0>} {
  wrapper.define "u0" from %n : !wrapper.buffer<[], [], i64>
  wrapper.assert u0 - 7, "many"
  wrapper.reserve 1, 64*(u0 ceildiv 16)
  %a = wrapper.alloc at 0 in 1 : !wrapper.buffer<[u0], [1], f32>
  wrapper.launch @zeros ins() outs(%a : !wrapper.buffer<[u0], [1], f32>)
  wrapper.give %a as 0 : !wrapper.buffer<[u0], [1], f32>
}

kernel.func @square(%x: tensor<?xf32, #sym.shape<[s0 + s1]>>) -> tensor<?xf32, #sym.shape<[s0 + s1]>> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<?xf32, #sym.shape<[s0 + s1]>> -> f32
    %b = arith.mulf %a, %a : f32
    kernel.yield %b : f32
  } : tensor<?xf32, #sym.shape<[s0 + s1]>>
  kernel.return %y : tensor<?xf32, #sym.shape<[s0 + s1]>>
}
kernel.func @zeros() -> tensor<?xf32, #sym.shape<[u0]>> {
  %y = kernel.map {
    %a = arith.constant 0.0 : f32
    kernel.yield %a : f32
  } : tensor<?xf32, #sym.shape<[u0]>>
  kernel.return %y : tensor<?xf32, #sym.shape<[u0]>>
}
kernel.func @is_positive(%x: tensor<4xf32>) -> tensor<i1> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %a = kernel.read %x () -> (0) : tensor<4xf32> -> f32
    %b = arith.cmpf ogt, %a, %zero : f32
    kernel.yield %b : i1
  } : tensor<i1>
  kernel.return %y : tensor<i1>
}
