// RUN: kiln-opt %s --wrapper-lower-to-llvm="name=tiny compiler=kiln" --split-input-file | FileCheck %s

// Nested graphs: functions of the run, their arena, their arguments and their results.
// CHECK-LABEL: llvm.func internal @kiln_graph_0(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr, %arg3: !llvm.ptr) -> i32
// CHECK: "llvm.intr.memcpy"(%arg3, %arg2
wrapper.func private @same(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[4], [1], f32>
    attributes {arena_bytes = #sym.expr<0>} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %x to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}
// CHECK-LABEL: llvm.func internal @kiln_graph_1(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr, %arg3: !llvm.ptr) -> i32
// CHECK: llvm.call @kiln_graph_0(%arg0, %{{.*}}, %arg2, %arg3)
wrapper.func private @outer(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[4], [1], f32>
    attributes {arena_bytes = #sym.expr<64>} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.call @same ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>)
}
wrapper.func private @go(%x: !wrapper.buffer<[4], [1], f32>) -> !wrapper.buffer<[], [], i1>
    attributes {arena_bytes = #sym.expr<0>} {
  wrapper.comment "writes nothing"
}
wrapper.func private @step(%c: !wrapper.buffer<[4], [1], f32>, %x: !wrapper.buffer<[2], [1], f32>)
    -> (!wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[2], [1], f32>) attributes {arena_bytes = #sym.expr<0>} {
  wrapper.comment "writes nothing"
}
// CHECK-LABEL: llvm.func internal @kiln_main(%arg0: !llvm.ptr) -> i32
wrapper.program @main(%p: !wrapper.buffer<[], [], i1> {wrapper.name = "p"},
                      %x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"},
                      %xs: !wrapper.buffer<[s0, 2], [2, 1], f32> {wrapper.name = "xs"})
    attributes {arena_bytes = #sym.expr<640>, weights_bytes = 0 : i64, symbols = {s0 = {min = 0}}} {
  %a = wrapper.alloc at 0 : !wrapper.buffer<[4], [1], f32>
  %b = wrapper.alloc at 64 : !wrapper.buffer<[4], [1], f32>
  %f = wrapper.alloc at 128 : !wrapper.buffer<[], [], i1>
  %ys = wrapper.alloc at 192 : !wrapper.buffer<[s0, 2], [2, 1], f32>
  %w = wrapper.alloc at 256 : !wrapper.buffer<[64], [1], i8>
  // CHECK: %[[FLAG:.*]] = llvm.load %{{.*}} -> i8
  // CHECK: %[[P:.*]] = llvm.icmp "ne" %[[FLAG]]
  // CHECK: llvm.cond_br %[[P]], ^[[THEN:bb[0-9]+]], ^[[ELSE:bb[0-9]+]]
  // CHECK: ^[[THEN]]:
  // CHECK: llvm.call @kiln_graph_1(
  // CHECK: ^[[ELSE]]:
  wrapper.if %p : !wrapper.buffer<[], [], i1> then @outer else @same
      ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%a : !wrapper.buffer<[4], [1], f32>)
      workspace(%w : !wrapper.buffer<[64], [1], i8>)
  // CHECK: llvm.icmp "sge"
  wrapper.if when s0 - 5 then @outer else @same
      ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%a : !wrapper.buffer<[4], [1], f32>)
      workspace(%w : !wrapper.buffer<[64], [1], i8>)
  // The condition, then a round, which writes where the last one did not.
  // CHECK: ^[[HEAD:bb[0-9]+]](%[[CUR:.*]]: !llvm.ptr, %[[NEXT:.*]]: !llvm.ptr, %[[OTHER:.*]]: !llvm.ptr):
  // CHECK: llvm.call @kiln_graph_2(%arg0, %{{.*}}, %[[CUR]], %{{.*}})
  // CHECK: llvm.call @kiln_graph_1(%arg0, %{{.*}}, %[[CUR]], %[[NEXT]])
  // CHECK-DAG: llvm.br ^[[HEAD]](%[[NEXT]], %[[OTHER]], %[[NEXT]] :
  // CHECK-DAG: llvm.icmp "eq" %[[CUR]]
  wrapper.while @go do @outer carried(%x : !wrapper.buffer<[4], [1], f32>) ins()
      outs(%a : !wrapper.buffer<[4], [1], f32>) spare(%b : !wrapper.buffer<[4], [1], f32>)
      flag(%f : !wrapper.buffer<[], [], i1>) workspace(%w : !wrapper.buffer<[64], [1], i8>)
  // Slices of 8 bytes.
  // CHECK: ^[[HEAD:bb[0-9]+]](%[[I:.*]]: i64, %[[CUR:.*]]: !llvm.ptr, %[[NEXT:.*]]: !llvm.ptr, %[[OTHER:.*]]: !llvm.ptr):
  // CHECK: llvm.icmp "slt" %[[I]]
  // CHECK: %[[EIGHT:.*]] = llvm.mlir.constant(8 : i64)
  // CHECK: %[[AT:.*]] = llvm.mul %[[I]], %[[EIGHT]]
  // CHECK: llvm.getelementptr %{{.*}}[%[[AT]]]
  // CHECK: llvm.call @kiln_graph_3(%arg0, %{{.*}}, %[[CUR]], %{{.*}}, %[[NEXT]], %{{.*}})
  wrapper.for @step length s0 carried(%x : !wrapper.buffer<[4], [1], f32>)
      slices(%xs : !wrapper.buffer<[s0, 2], [2, 1], f32>) ins()
      outs(%a, %ys : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[s0, 2], [2, 1], f32>)
      spare(%b : !wrapper.buffer<[4], [1], f32>)
}

// -----

// A graph that gives a buffer: it stores the address where its caller says.
// CHECK-LABEL: llvm.func internal @kiln_graph_0(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr) -> i32
// CHECK: %[[SEGMENT:.*]] = llvm.load %{{.*}} : !llvm.ptr -> !llvm.ptr
// CHECK: llvm.call @kiln_rt_reserve
// CHECK: %[[Y:.*]] = llvm.load %{{.*}} : !llvm.ptr -> !llvm.ptr
// CHECK: llvm.store %[[Y]], %arg2 : !llvm.ptr, !llvm.ptr
wrapper.func private @f() -> (!wrapper.buffer<[u0], [1], f32> {wrapper.given}) attributes {arena_bytes = #sym.expr<0>} {
  wrapper.define "u0" = 3
  wrapper.reserve 1, 64*u0
  %y = wrapper.alloc at 0 in 1 : !wrapper.buffer<[u0], [1], f32>
  wrapper.give %y as 0 : !wrapper.buffer<[u0], [1], f32>
}
// CHECK-LABEL: llvm.func internal @kiln_main
// CHECK: %[[SLOTS:.*]] = llvm.alloca %{{.*}} x !llvm.ptr
// CHECK: %[[SLOT:.*]] = llvm.getelementptr %[[SLOTS]][0]
// CHECK: llvm.call @kiln_graph_0(%arg0, %{{.*}}, %[[SLOT]])
// CHECK: %[[Y:.*]] = llvm.load %[[SLOTS]]
// CHECK: "llvm.intr.memcpy"(%{{.*}}, %[[Y]],
wrapper.program @main() -> (!wrapper.buffer<[u0], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64, symbols = {u0 = {min = 0}}} {
  %y = wrapper.call @f ins() outs() gives(!wrapper.buffer<[u0], [1], f32>)
  %z = wrapper.output 0 : !wrapper.buffer<[u0], [1], f32>
  wrapper.copy %y to %z : !wrapper.buffer<[u0], [1], f32> to !wrapper.buffer<[u0], [1], f32>
}
