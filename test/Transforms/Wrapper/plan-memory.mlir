// RUN: kiln-opt %s --wrapper-plan-memory --split-input-file | FileCheck %s

// The largest first; what is freed is taken again; sizes are rounded up to 64.
// CHECK-LABEL: wrapper.program @main() attributes {arena_bytes = #sym.expr<1088>}
wrapper.program @main() {
  // CHECK: %{{.*}} = wrapper.alloc at 640 : <[100], [1], f32>
  %a = wrapper.alloc : !wrapper.buffer<[100], [1], f32>
  // CHECK: %{{.*}} = wrapper.alloc at 0 : <[160], [1], f32>
  %b = wrapper.alloc : !wrapper.buffer<[160], [1], f32>
  wrapper.free %a : !wrapper.buffer<[100], [1], f32>
  // CHECK: %{{.*}} = wrapper.alloc at 640 : <[64], [1], f32>
  %c = wrapper.alloc : !wrapper.buffer<[64], [1], f32>
  // CHECK: %{{.*}} = wrapper.alloc at 896 : <[1], [1], i1>
  %d = wrapper.alloc : !wrapper.buffer<[1], [1], i1>
  wrapper.free %b : !wrapper.buffer<[160], [1], f32>
  // Nothing needs a place.
  // CHECK: %{{.*}} = wrapper.alloc at 0 : <[0], [1], f32>
  %e = wrapper.alloc : !wrapper.buffer<[0], [1], f32>
}

// -----

// Symbolic sizes follow the fixed ones; a reuse keeps its buffer's place taken.
// CHECK-LABEL: wrapper.program @main()
// CHECK-SAME: arena_bytes = #sym.expr<64*s1 + 64*(s0 ceildiv 16) + 64>
wrapper.program @main() attributes {symbols = {s0 = {min = 1}, s1 = {min = 1}}} {
  // CHECK: wrapper.alloc at 64 : <[s0], [1], f32>
  %a = wrapper.alloc : !wrapper.buffer<[s0], [1], f32>
  // CHECK: wrapper.alloc at 0 : <[3], [1], f32>
  %b = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // CHECK: wrapper.reuse
  %c = wrapper.reuse %a : !wrapper.buffer<[s0], [1], f32> -> !wrapper.buffer<[s0], [1], i32>
  // CHECK: wrapper.alloc at 64*(s0 ceildiv 16) + 64 : <[s1, 16], [16, 1], f32>
  %d = wrapper.alloc : !wrapper.buffer<[s1, 16], [16, 1], f32>
}

// -----

// A segment for each point after which something of a new size is wanted: u0 and u1 are known
// together, u2 comes later, and what needs u0 alone joins the latest.
// CHECK-LABEL: wrapper.program @main
// CHECK-SAME: arena_bytes = #sym.expr<64*s0 + 64>
wrapper.program @main(%n: !wrapper.buffer<[], [], i64> {wrapper.name = "n"})
    attributes {symbols = {s0 = {min = 1}, u0 = {min = 0}, u1 = {min = 0}, u2 = {min = 0}}} {
  // CHECK: wrapper.alloc at 64 : <[s0, 16], [16, 1], f32>
  %s = wrapper.alloc : !wrapper.buffer<[s0, 16], [16, 1], f32>
  wrapper.define "u0" from %n : !wrapper.buffer<[], [], i64>
  wrapper.define "u1" from %n : !wrapper.buffer<[], [], i64>
  // CHECK: wrapper.alloc at 0 : <[3], [1], f32>
  %f = wrapper.alloc : !wrapper.buffer<[3], [1], f32>
  // CHECK: wrapper.reserve 1, 64*s0*u1 + 128*u0
  // CHECK-NEXT: wrapper.alloc at 0 in 1 : <[u0, 16], [16, 1], f32>
  %a = wrapper.alloc : !wrapper.buffer<[u0, 16], [16, 1], f32>
  // CHECK: wrapper.alloc at 64*u0 in 1 : <[s0, u1, 16], [16*u1, 16, 1], f32>
  %b = wrapper.alloc : !wrapper.buffer<[s0, u1, 16], [16*u1, 16, 1], f32>
  wrapper.define "u2" from %n : !wrapper.buffer<[], [], i64>
  // CHECK: wrapper.define "u2"
  // CHECK-NEXT: wrapper.alloc at 64*s0*u1 + 64*u0 in 1
  %c = wrapper.alloc : !wrapper.buffer<[u0, 16], [16, 1], i32>
  // CHECK: wrapper.reserve 2, 64*u0 + 64*u2
  // CHECK-NEXT: wrapper.alloc at 0 in 2
  %d = wrapper.alloc : !wrapper.buffer<[u2, 16], [16, 1], f32>
  // CHECK-NEXT: wrapper.alloc at 64*u2 in 2
  %e = wrapper.alloc : !wrapper.buffer<[u0, 16], [16, 1], i32>
}

// -----

// A graph is planned before its caller, which allocates as much as the larger branch needs, for the
// time of the call.
// CHECK: wrapper.func private @small() -> !wrapper.buffer<[4], [1], f32> attributes {arena_bytes = #sym.expr<64>}
wrapper.func private @small() -> !wrapper.buffer<[4], [1], f32> {
  %a = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
}
// CHECK: wrapper.func private @large() -> !wrapper.buffer<[4], [1], f32> attributes {arena_bytes = #sym.expr<64*(s0 ceildiv 16) + 64>}
wrapper.func private @large() -> !wrapper.buffer<[4], [1], f32> {
  // CHECK: wrapper.alloc at 64
  %a = wrapper.alloc : !wrapper.buffer<[s0], [1], f32>
  // CHECK: %[[W:.*]] = wrapper.alloc at 0 : <[64], [1], i8>
  // CHECK: wrapper.call @small ins() outs(%{{.*}}) workspace(%[[W]] : !wrapper.buffer<[64], [1], i8>)
  // CHECK: wrapper.free %[[W]]
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.call @small ins() outs(%y : !wrapper.buffer<[4], [1], f32>)
}
// CHECK: wrapper.program @main() attributes {arena_bytes = #sym.expr<{{.*}}>, symbols
wrapper.program @main() attributes {symbols = {s0 = {min = 1}}} {
  %a = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
  // CHECK: %[[W:.*]] = wrapper.alloc at 64 : <[max(64*(s0 ceildiv 16) + 64, 64)], [1], i8>
  // CHECK: wrapper.if when s0 - 5 then @small else @large ins() outs(%{{.*}}) workspace(%[[W]] :
  // CHECK-NEXT: wrapper.free %[[W]]
  wrapper.if when s0 - 5 then @small else @large ins() outs(%a : !wrapper.buffer<[4], [1], f32>)
}

// -----

// What a graph defines is known to its caller after the call; no segment is two functions'.
// CHECK: wrapper.func private @f
// CHECK: wrapper.reserve 1, 64*u0
// CHECK-NEXT: wrapper.alloc at 0 in 1
wrapper.func private @f() -> (!wrapper.buffer<[u0, 16], [16, 1], f32> {wrapper.given}) {
  wrapper.define "u0" = 3
  %y = wrapper.alloc : !wrapper.buffer<[u0, 16], [16, 1], f32>
  wrapper.give %y as 0 : !wrapper.buffer<[u0, 16], [16, 1], f32>
}
// CHECK: wrapper.program @main
// CHECK: wrapper.call @f
// CHECK: wrapper.reserve 2, 64*u0
// CHECK-NEXT: wrapper.alloc at 0 in 2
wrapper.program @main() attributes {symbols = {u0 = {min = 0}}} {
  %y = wrapper.call @f ins() outs() gives(!wrapper.buffer<[u0, 16], [16, 1], f32>)
  %z = wrapper.alloc : !wrapper.buffer<[u0, 16], [16, 1], f32>
  wrapper.copy %y to %z : !wrapper.buffer<[u0, 16], [16, 1], f32> to !wrapper.buffer<[u0, 16], [16, 1], f32>
}
