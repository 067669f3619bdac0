// RUN: kiln-opt %s --wrapper-update-in-place --split-input-file | FileCheck %s

!cache = !wrapper.buffer<[8, 4], [4, 1], f32>
!flat = !wrapper.buffer<[32], [1], f32>
!row = !wrapper.buffer<[1, 4], [4, 1], f32>
!at = !wrapper.buffer<[1], [1], i64>

// x.index_copy(0, at, new): of an input, a buffer and memory of the program's own.
// CHECK-LABEL: kernel.func @put_in_place
// CHECK-SAME: updates = 0
kernel.func @put(%x: tensor<8x4xf32>, %at: tensor<1xi64>, %new: tensor<1x4xf32>) -> tensor<8x4xf32> {
  %y = kernel.scatter batch [4] targets [8] places [1] perm [1, 0] init {
    %old = kernel.read %x (d0, d1, d2) -> (d1, d0) : tensor<8x4xf32> -> f32
    kernel.yield %old : f32
  } update {
    %i = kernel.read %at (d0, d1, d2) -> (d2) : tensor<1xi64> -> i64
    %v = kernel.read %new (d0, d1, d2) -> (d2, d0) : tensor<1x4xf32> -> f32
    %always = arith.constant true
    kernel.yield %i, %always, %v : i64, i1, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %b : f32
  } : tensor<8x4xf32>
  kernel.return %y : tensor<8x4xf32>
}
kernel.func @twice(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  } : tensor<8x4xf32>
  kernel.return %y : tensor<8x4xf32>
}
// The same elements in memory, under another shape.
// CHECK-LABEL: kernel.func @put_flat_in_place
// CHECK-SAME: updates = 0
kernel.func @put_flat(%x: tensor<32xf32>, %at: tensor<1xi64>) -> tensor<8x4xf32> {
  %y = kernel.scatter batch [4] targets [8] places [1] perm [1, 0] init {
    %old = kernel.read %x (d0, d1, d2) -> (4*d1 + d0) : tensor<32xf32> -> f32
    kernel.yield %old : f32
  } update {
    %i = kernel.read %at (d0, d1, d2) -> (d2) : tensor<1xi64> -> i64
    %v = arith.constant 1.0 : f32
    %always = arith.constant true
    kernel.yield %i, %always, %v : i64, i1, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %b : f32
  } : tensor<8x4xf32>
  kernel.return %y : tensor<8x4xf32>
}

// CHECK-LABEL: wrapper.program @main
// CHECK-SAME: (%[[X:.*]]: !wrapper.buffer<{{.*}}> {wrapper.mutated, wrapper.name = "x"}, %[[AT:[a-z0-9]+]]
wrapper.program @main(%x: !cache {wrapper.mutated, wrapper.name = "x"}, %at: !at {wrapper.name = "at"}, %new: !row {wrapper.name = "new"})
    -> (!cache {wrapper.name = "y"}, !cache {wrapper.name = "z"}, !cache {wrapper.name = "old"}) {
  %b = wrapper.constant "b" mutated dense<0.0> : tensor<8x4xf32> to !cache
  // Two updates, one after the other, then a copy to where the old value came from: none of it is in memory of its own.
  // Readers of the old value come first.
  // CHECK: %[[OLD:.*]] = wrapper.output 2
  // CHECK-NEXT: wrapper.copy %[[X]] to %[[OLD]]
  // CHECK-NEXT: wrapper.launch @put_in_place ins(%[[X]], {{.*}}) outs(%[[X]] :
  // CHECK-NEXT: wrapper.launch @put_in_place ins(%[[X]], {{.*}}) outs(%[[X]] :
  // CHECK-NEXT: %[[Y:.*]] = wrapper.output 0
  // CHECK-NEXT: wrapper.launch @twice ins(%[[X]] : {{.*}}) outs(%[[Y]] :
  %1 = wrapper.alloc : !cache
  wrapper.launch @put ins(%x, %at, %new : !cache, !at, !row) outs(%1 : !cache)
  %2 = wrapper.alloc : !cache
  wrapper.launch @put ins(%1, %at, %new : !cache, !at, !row) outs(%2 : !cache)
  %y = wrapper.output 0 : !cache
  wrapper.launch @twice ins(%2 : !cache) outs(%y : !cache)
  // A buffer, and the output that is its new value: that is the copy.
  // CHECK: wrapper.launch @put_in_place ins(%[[B:[a-z0-9]+]], {{.*}}) outs(%[[B]] :
  // CHECK-NEXT: %[[Z:.*]] = wrapper.output 1
  // CHECK-NEXT: wrapper.copy %[[B]] to %[[Z]]
  %z = wrapper.output 1 : !cache
  wrapper.launch @put ins(%b, %at, %new : !cache, !at, !row) outs(%z : !cache)
  %old = wrapper.output 2 : !cache
  wrapper.copy %x to %old : !cache to !cache
  // CHECK-NOT: wrapper.copy
  wrapper.copy %2 to %x : !cache to !cache
  wrapper.copy %z to %b : !cache to !cache
}

// CHECK-LABEL: wrapper.func private @own
wrapper.func private @own(%x: !cache, %at: !at, %new: !row) -> (!cache, !cache) {
  // An argument is only read; what is computed here can be written over.
  // CHECK: %[[A:.*]] = wrapper.alloc : <[32]
  %a = wrapper.alloc : !flat
  %av = wrapper.view %a offset 0 : !flat -> !cache
  wrapper.launch @twice ins(%x : !cache) outs(%av : !cache)
  // CHECK: wrapper.launch @twice
  // CHECK-NEXT: %[[B:.*]] = wrapper.view %[[A]] offset 0 : {{.*}} -> <[8, 4]
  // CHECK-NEXT: wrapper.launch @put_flat_in_place ins(%[[A]], {{.*}}) outs(%[[B]] :
  %b = wrapper.alloc : !cache
  wrapper.launch @put_flat ins(%a, %at : !flat, !at) outs(%b : !cache)
  // CHECK: %[[R:.*]] = wrapper.output 0
  // CHECK-NEXT: wrapper.launch @twice ins(%[[B]] : {{.*}}) outs(%[[R]] :
  // CHECK-NEXT: wrapper.launch @put_in_place ins(%[[R]], {{.*}}) outs(%[[R]] :
  %c = wrapper.alloc : !cache
  wrapper.launch @twice ins(%b : !cache) outs(%c : !cache)
  %r = wrapper.output 0 : !cache
  wrapper.launch @put ins(%c, %at, %new : !cache, !at, !row) outs(%r : !cache)
  // CHECK: %[[S:.*]] = wrapper.output 1
  // CHECK-NEXT: wrapper.launch @put ins(%{{.*}}) outs(%[[S]] :
  %s = wrapper.output 1 : !cache
  wrapper.launch @put ins(%x, %at, %new : !cache, !at, !row) outs(%s : !cache)
}

// -----

// A value that is moved to a mutated input may be computed there by a map that reads it element by element, or not at all.
!v = !wrapper.buffer<[8], [1], f32>

kernel.func @twice(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
kernel.func @flip(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (7 - d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// CHECK-LABEL: wrapper.program @main
// CHECK-SAME: (%[[X:.*]]: !wrapper.buffer<{{.*}}> {wrapper.mutated, wrapper.name = "x"}, %[[Y:.*]]: !wrapper.buffer<{{.*}}> {wrapper.mutated, wrapper.name = "y"}, %[[Z:.*]]: !wrapper.buffer
wrapper.program @main(%x: !v {wrapper.mutated, wrapper.name = "x"}, %y: !v {wrapper.mutated, wrapper.name = "y"}, %z: !v {wrapper.mutated, wrapper.name = "z"}) {
  // CHECK-NEXT: wrapper.launch @twice ins(%[[X]] : {{.*}}) outs(%[[X]] :
  %1 = wrapper.alloc : !v
  wrapper.launch @twice ins(%x : !v) outs(%1 : !v)
  // CHECK-NEXT: wrapper.launch @flip ins(%[[X]] : {{.*}}) outs(%[[Y]] :
  %2 = wrapper.alloc : !v
  wrapper.launch @flip ins(%1 : !v) outs(%2 : !v)
  // Elements are read after others have been written.
  // CHECK-NEXT: %[[A:.*]] = wrapper.alloc
  // CHECK-NEXT: wrapper.launch @flip ins(%[[Z]] : {{.*}}) outs(%[[A]] :
  %3 = wrapper.alloc : !v
  wrapper.launch @flip ins(%z : !v) outs(%3 : !v)
  // CHECK-NEXT: wrapper.copy %[[A]] to %[[Z]]
  wrapper.copy %1 to %x : !v to !v
  wrapper.copy %2 to %y : !v to !v
  wrapper.copy %3 to %z : !v to !v
  // CHECK-NEXT: }
}

// -----

// Reasons why an update stays a copy.
!cache = !wrapper.buffer<[8], [1], f32>
!at = !wrapper.buffer<[1], [1], i64>
!n = !wrapper.buffer<[], [], i64>

kernel.func @put(%x: tensor<8xf32>, %at: tensor<1xi64>) -> tensor<8xf32> {
  %y = kernel.scatter batch [] targets [8] places [1] init {
    %old = kernel.read %x (d0, d1) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %old : f32
  } update {
    %i = kernel.read %at (d0, d1) -> (d1) : tensor<1xi64> -> i64
    %v = arith.constant 1.0 : f32
    %always = arith.constant true
    kernel.yield %i, %always, %v : i64, i1, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %b : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
// It reads elsewhere in what it would write over.
// CHECK: kernel.func @put_own
kernel.func @put_own(%x: tensor<8xf32>, %at: tensor<1xi64>) -> tensor<8xf32> {
  %y = kernel.scatter batch [] targets [8] places [1] init {
    %old = kernel.read %x (d0, d1) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %old : f32
  } update {
    %i = kernel.read %at (d0, d1) -> (d1) : tensor<1xi64> -> i64
    %v = kernel.read %x (d0, d1) -> (0) : tensor<8xf32> -> f32
    %always = arith.constant true
    kernel.yield %i, %always, %v : i64, i1, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %b : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
// It begins as something else.
kernel.func @put_flipped(%x: tensor<8xf32>, %at: tensor<1xi64>) -> tensor<8xf32> {
  %y = kernel.scatter batch [] targets [8] places [1] init {
    %old = kernel.read %x (d0, d1) -> (7 - d0) : tensor<8xf32> -> f32
    kernel.yield %old : f32
  } update {
    %i = kernel.read %at (d0, d1) -> (d1) : tensor<1xi64> -> i64
    %v = arith.constant 1.0 : f32
    %always = arith.constant true
    kernel.yield %i, %always, %v : i64, i1, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %b : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
kernel.func @add(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %z = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    %b = kernel.read %y (d0) -> (d0) : tensor<8xf32> -> f32
    %c = arith.addf %a, %b : f32
    kernel.yield %c : f32
  } : tensor<8xf32>
  kernel.return %z : tensor<8xf32>
}

// CHECK-NOT: _in_place
// CHECK-LABEL: wrapper.program @main
wrapper.program @main(%x: !cache {wrapper.name = "x"}, %at: !at {wrapper.name = "at"}, %a: !cache {wrapper.mutated, wrapper.name = "a"},
    %b: !cache {wrapper.mutated, wrapper.name = "b"}, %c: !cache {wrapper.mutated, wrapper.name = "c"},
    %e: !cache {wrapper.mutated, wrapper.name = "e"})
    -> (!cache {wrapper.name = "y"}, !cache {wrapper.name = "z"}, !cache {wrapper.name = "w"}) attributes {symbols = {u0 = {min = 0}}} {
  // An input that is not mutated.
  // CHECK: wrapper.launch @put ins
  %y = wrapper.output 0 : !cache
  wrapper.launch @put ins(%x, %at : !cache, !at) outs(%y : !cache)
  // The old value is read together with the new one.
  // CHECK: wrapper.launch @put ins
  %1 = wrapper.alloc : !cache
  wrapper.launch @put ins(%a, %at : !cache, !at) outs(%1 : !cache)
  %z = wrapper.output 1 : !cache
  wrapper.launch @add ins(%a, %1 : !cache, !cache) outs(%z : !cache)
  // CHECK: wrapper.launch @put_own ins
  %2 = wrapper.alloc : !cache
  wrapper.launch @put_own ins(%b, %at : !cache, !at) outs(%2 : !cache)
  // CHECK: wrapper.launch @put_flipped ins
  %3 = wrapper.alloc : !cache
  wrapper.launch @put_flipped ins(%c, %at : !cache, !at) outs(%3 : !cache)
  // A reader of the old value has to wait for a number that data gives.
  // CHECK: wrapper.launch @put ins
  %5 = wrapper.alloc : !cache
  wrapper.launch @put ins(%e, %at : !cache, !at) outs(%5 : !cache)
  %n = wrapper.view %at offset 0 : !at -> !n
  wrapper.define "u0" from %n : !n
  %w = wrapper.output 2 : !cache
  wrapper.copy %e to %w : !cache to !cache
  // CHECK-COUNT-5: wrapper.copy
  wrapper.copy %1 to %a : !cache to !cache
  wrapper.copy %2 to %b : !cache to !cache
  wrapper.copy %3 to %c : !cache to !cache
  wrapper.copy %5 to %e : !cache to !cache
}

// -----

// A value that is kept and updated further: the second update begins from a copy.
!cache = !wrapper.buffer<[8], [1], f32>
!at = !wrapper.buffer<[1], [1], i64>

kernel.func @put(%x: tensor<8xf32>, %at: tensor<1xi64>) -> tensor<8xf32> {
  %y = kernel.scatter batch [] targets [8] places [1] init {
    %old = kernel.read %x (d0, d1) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %old : f32
  } update {
    %i = kernel.read %at (d0, d1) -> (d1) : tensor<1xi64> -> i64
    %v = arith.constant 1.0 : f32
    %always = arith.constant true
    kernel.yield %i, %always, %v : i64, i1, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    kernel.yield %s : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// CHECK-LABEL: wrapper.program @main
// CHECK-SAME: %[[X:[a-z0-9]+]]: !wrapper.buffer<[8], [1], f32> {wrapper.mutated, wrapper.name = "x"}, %[[Y:[a-z0-9]+]]: !wrapper.buffer<[8], [1], f32> {wrapper.mutated
wrapper.program @main(%x: !cache {wrapper.mutated, wrapper.name = "x"}, %y: !cache {wrapper.mutated, wrapper.name = "y"}, %at: !at {wrapper.name = "at"}) {
  // CHECK-NEXT: wrapper.launch @put_in_place ins(%[[X]], {{.*}}) outs(%[[X]] :
  %1 = wrapper.alloc : !cache
  wrapper.launch @put ins(%x, %at : !cache, !at) outs(%1 : !cache)
  // Nobody may change %1 here.
  // CHECK-NEXT: wrapper.launch @put ins(%[[X]], {{.*}}) outs(%[[Y]] :
  %2 = wrapper.alloc : !cache
  wrapper.launch @put ins(%1, %at : !cache, !at) outs(%2 : !cache)
  wrapper.copy %1 to %x : !cache to !cache
  wrapper.copy %2 to %y : !cache to !cache
  // CHECK-NEXT: }
}
