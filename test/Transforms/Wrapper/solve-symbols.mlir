// RUN: kiln-opt %s --wrapper-solve-symbols --split-input-file | FileCheck %s

// What can be read is read first; then s1 follows from 2*s1 + s0, and s2 from s1*s2.
// CHECK-LABEL: wrapper.program @main
// CHECK-NEXT: wrapper.bind "s0" from %arg1 size 0 as s0 : <[s0], [1], f32>
// CHECK-NEXT: wrapper.bind "s1" from %arg0 size 1 as s0 + 2*s1 :
// CHECK-NEXT: wrapper.bind "s2" from %arg0 size 0 as s1*s2 :
// CHECK-NEXT: wrapper.comment
wrapper.program @main(%z: !wrapper.buffer<[s1*s2, 2*s1 + s0], [2*s1 + s0, 1], f32> {wrapper.name = "z"},
                      %x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"})
    attributes {symbols = {s0 = {}, s1 = {}, s2 = {}}} {
  wrapper.comment "steps"
}

// -----

// Nothing uses s1 or s2, which only strides have: inputs of any layout are taken.
// CHECK-LABEL: wrapper.program @main(%arg0: !wrapper.buffer<[s0, 4], [4, 1], f32> {wrapper.name = "x"})
// CHECK-NEXT: wrapper.bind "s0" from %arg0 size 0 as s0
// CHECK-NEXT: }
wrapper.program @main(%x: !wrapper.buffer<[s0, 4], [4, 1], f32>
                          {wrapper.name = "x", wrapper.strides = #sym.shape<[s1, s2]>})
    attributes {symbols = {s0 = {}, s1 = {}, s2 = {}}} {
}

// -----

// The program computes with s1: the strides of %x are read and checked, those of %y are not. An integer is a symbol.
// CHECK-LABEL: wrapper.program @main(
// CHECK-SAME: %arg0: !wrapper.buffer<[s0, 4], [4, 1], f32> {wrapper.name = "x", wrapper.strides = #sym.shape<[s1, 1]>}
// CHECK-SAME: %arg1: !wrapper.buffer<[s0, 4], [4, 1], f32> {wrapper.name = "y"}
// CHECK-SAME: %arg2: !wrapper.buffer<[], [], i64> {wrapper.name = "n", wrapper.value = #sym.expr<2*s2 + 1>}
// CHECK-NEXT: wrapper.bind "s0" from %arg0 size 0 as s0
// CHECK-NEXT: wrapper.bind "s1" from %arg0 stride 0 as s1
// CHECK-NEXT: wrapper.bind "s2" from %arg2 as 2*s2 + 1 : <[], [], i64>
wrapper.program @main(%x: !wrapper.buffer<[s0, 4], [4, 1], f32>
                          {wrapper.name = "x", wrapper.strides = #sym.shape<[s1, 1]>},
                      %y: !wrapper.buffer<[s0, 4], [4, 1], f32>
                          {wrapper.name = "y", wrapper.strides = #sym.shape<[s1, 1]>},
                      %n: !wrapper.buffer<[], [], i64>
                          {wrapper.name = "n", wrapper.value = #sym.expr<2*s2 + 1>})
    attributes {symbols = {s0 = {}, s1 = {}, s2 = {}}} {
  %a = wrapper.alloc : !wrapper.buffer<[s1], [1], f32>
}

// -----

// What the program defines does not come from an input, whatever its size says.
// CHECK-LABEL: wrapper.program @main
// CHECK-NOT: wrapper.bind
wrapper.program @main(%x: !wrapper.buffer<[], [], i64> {wrapper.name = "x"})
    attributes {symbols = {u0 = {}}} {
  wrapper.define "u0" from %x : !wrapper.buffer<[], [], i64>
  %a = wrapper.alloc : !wrapper.buffer<[u0], [1], f32>
}

// -----

// The results depend on the strides of %x.
// CHECK-LABEL: wrapper.program @main(
// CHECK-SAME: %arg0: !wrapper.buffer<[s0, 4], [4, 1], f32> {wrapper.name = "x", wrapper.strides = #sym.shape<[1, s1]>}
// CHECK-SAME: %arg1: !wrapper.buffer<[4], [1], f32> {wrapper.name = "y"}
// CHECK-NEXT: wrapper.bind "s0" from %arg0 size 0 as s0
// CHECK-NEXT: wrapper.bind "s1" from %arg0 stride 1 as s1
wrapper.program @main(%x: !wrapper.buffer<[s0, 4], [4, 1], f32>
                          {wrapper.name = "x", wrapper.check_strides, wrapper.strides = #sym.shape<[1, s1]>},
                      %y: !wrapper.buffer<[4], [1], f32>
                          {wrapper.name = "y", wrapper.strides = #sym.shape<[1]>})
    attributes {symbols = {s0 = {}, s1 = {}}} {
}

// -----

// The program computes with s1, which only the strides of %x have: s2, with which they are compared, is read, too.
// CHECK-LABEL: wrapper.program @main(
// CHECK-SAME: wrapper.strides = #sym.shape<[s2, s1, 1]>
// CHECK: wrapper.bind "s1" from %arg0 stride 1 as s1
// CHECK-NEXT: wrapper.bind "s2" from %arg0 stride 0 as s2
wrapper.program @main(%x: !wrapper.buffer<[4, 5, 6], [30, 6, 1], f32>
                          {wrapper.name = "x", wrapper.strides = #sym.shape<[s2, s1, 1]>})
    attributes {symbols = {s1 = {}, s2 = {}}} {
  %a = wrapper.alloc : !wrapper.buffer<[s1], [1], f32>
}
