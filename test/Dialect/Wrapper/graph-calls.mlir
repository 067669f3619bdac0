// RUN: kiln-opt %s | kiln-opt | FileCheck %s
// RUN: kiln-opt --mlir-print-op-generic %s | kiln-opt | FileCheck %s

// CHECK: wrapper.func private @f(%{{.*}}: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32> attributes {arena_bytes = #sym.expr<64>}
wrapper.func private @f(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[8], [1], f32>
    attributes {arena_bytes = #sym.expr<64>} {
  %y = wrapper.output 0 : !wrapper.buffer<[8], [1], f32>
  wrapper.copy %x to %y : !wrapper.buffer<[8], [1], f32> to !wrapper.buffer<[8], [1], f32>
}
wrapper.func private @nothing() {
  wrapper.comment "neither arguments nor results"
}
wrapper.func private @positive(%x: !wrapper.buffer<[8], [1], f32>) -> !wrapper.buffer<[], [], i1> {
  wrapper.comment "not planned yet"
}
wrapper.func private @step(%c: !wrapper.buffer<[], [], f32>, %x: !wrapper.buffer<[8], [1], f32>,
                           %w: !wrapper.buffer<[8], [1], f32>)
    -> (!wrapper.buffer<[], [], f32>, !wrapper.buffer<[8], [1], f32>) {
  wrapper.comment "not planned yet"
}
// CHECK: wrapper.func private @some() -> (!wrapper.buffer<[u0], [1], f32> {wrapper.given}, !wrapper.buffer<[8], [1], f32>)
wrapper.func private @some() -> (!wrapper.buffer<[u0], [1], f32> {wrapper.given}, !wrapper.buffer<[8], [1], f32>) {
  wrapper.define "u0" = 3
  %y = wrapper.alloc : !wrapper.buffer<[u0], [1], f32>
  // CHECK: wrapper.give %{{.*}} as 0 : <[u0], [1], f32>
  wrapper.give %y as 0 : !wrapper.buffer<[u0], [1], f32>
}

wrapper.program @main(%p: !wrapper.buffer<[1], [1], i1> {wrapper.name = "p"},
                      %x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"},
                      %xs: !wrapper.buffer<[s0, 8], [8, 1], f32> {wrapper.name = "xs"},
                      %c: !wrapper.buffer<[], [], f32> {wrapper.name = "c"})
    attributes {symbols = {s0 = {min = 0}, u0 = {min = 0}}} {
  %w = wrapper.alloc : !wrapper.buffer<[64], [1], i8>
  %a = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  %b = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  %f = wrapper.alloc : !wrapper.buffer<[], [], i1>
  %d = wrapper.alloc : !wrapper.buffer<[], [], f32>
  %e = wrapper.alloc : !wrapper.buffer<[], [], f32>
  %ys = wrapper.alloc : !wrapper.buffer<[s0, 8], [8, 1], f32>
  // CHECK: wrapper.call @nothing ins() outs()
  wrapper.call @nothing ins() outs()
  // CHECK: wrapper.call @f ins({{.*}}) outs({{.*}}) workspace(%{{.*}} : !wrapper.buffer<[64], [1], i8>)
  wrapper.call @f ins(%x : !wrapper.buffer<[8], [1], f32>) outs(%a : !wrapper.buffer<[8], [1], f32>)
      workspace(%w : !wrapper.buffer<[64], [1], i8>)
  // CHECK: wrapper.if %{{.*}} : !wrapper.buffer<[1], [1], i1> then @f else @f ins(
  wrapper.if %p : !wrapper.buffer<[1], [1], i1> then @f else @f
      ins(%x : !wrapper.buffer<[8], [1], f32>) outs(%a : !wrapper.buffer<[8], [1], f32>)
  // CHECK: wrapper.if when s0 - 5 then @nothing else @nothing ins() outs()
  wrapper.if when s0 - 5 then @nothing else @nothing ins() outs()
  // CHECK: %{{.*}} = wrapper.call @some ins() outs(%{{.*}}) gives(!wrapper.buffer<[u0], [1], f32>)
  %g = wrapper.call @some ins() outs(%b : !wrapper.buffer<[8], [1], f32>) gives(!wrapper.buffer<[u0], [1], f32>)
  // CHECK: %{{.*}} = wrapper.if when s0 - 5 then @some else @some ins() outs(%{{.*}}) gives(!wrapper.buffer<[u0], [1], f32>)
  %h = wrapper.if when s0 - 5 then @some else @some ins() outs(%b : !wrapper.buffer<[8], [1], f32>)
      gives(!wrapper.buffer<[u0], [1], f32>)
  // CHECK: wrapper.while @positive do @f carried({{.*}}) ins() outs({{.*}}) spare({{.*}}) flag(%{{.*}} : <[], [], i1>)
  wrapper.while @positive do @f carried(%x : !wrapper.buffer<[8], [1], f32>) ins()
      outs(%a : !wrapper.buffer<[8], [1], f32>) spare(%b : !wrapper.buffer<[8], [1], f32>)
      flag(%f : !wrapper.buffer<[], [], i1>)
  // CHECK: wrapper.for @step length s0 carried({{.*}}) slices({{.*}}) ins({{.*}}) outs({{.*}}) spare({{.*}})
  wrapper.for @step length s0 carried(%c : !wrapper.buffer<[], [], f32>)
      slices(%xs : !wrapper.buffer<[s0, 8], [8, 1], f32>) ins(%x : !wrapper.buffer<[8], [1], f32>)
      outs(%d, %ys : !wrapper.buffer<[], [], f32>, !wrapper.buffer<[s0, 8], [8, 1], f32>)
      spare(%e : !wrapper.buffer<[], [], f32>)
}
