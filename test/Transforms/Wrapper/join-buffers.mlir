// RUN: kiln-opt %s --wrapper-join-buffers --split-input-file | FileCheck %s

// CHECK-NOT: @join
kernel.func @join(%a: tensor<1x?x4xf32, #sym.shape<[1, s0, 4]>>, %b: tensor<1x3x4xf32>, %c: tensor<1x2x4xf32>) -> tensor<1x?x4xf32, #sym.shape<[1, s0 + 5, 4]>> {
  %r = kernel.map {
    %0 = arith.constant 0.0 : f32
    %m = kernel.inside (d0, d1, d2) -> (d1 - s0 - 3) bounds [2]
    %x = kernel.read %c (d0, d1, d2) -> (0, d1 - s0 - 3, d2) if %m else(%0 : f32) : tensor<1x2x4xf32> -> f32
    %n = kernel.inside (d0, d1, d2) -> (d1 - s0) bounds [3]
    %y = kernel.read %b (d0, d1, d2) -> (d0, d1 - s0, d2) if %n else(%x : f32) : tensor<1x3x4xf32> -> f32
    %o = kernel.inside (d0, d1, d2) -> (d1) bounds [s0]
    %z = kernel.read %a (d0, d1, d2) -> (d0, d1, d2) if %o else(%y : f32) : tensor<1x?x4xf32, #sym.shape<[1, s0, 4]>> -> f32
    kernel.yield %z : f32
  } : tensor<1x?x4xf32, #sym.shape<[1, s0 + 5, 4]>>
  kernel.return %r : tensor<1x?x4xf32, #sym.shape<[1, s0 + 5, 4]>>
}
// CHECK: kernel.func @make
kernel.func @make() -> tensor<1x?x4xf32, #sym.shape<[1, s0, 4]>> {
  %y = kernel.map {
    %0 = arith.constant 0.0 : f32
    kernel.yield %0 : f32
  } : tensor<1x?x4xf32, #sym.shape<[1, s0, 4]>>
  kernel.return %y : tensor<1x?x4xf32, #sym.shape<[1, s0, 4]>>
}
kernel.func @twice(%x: tensor<12xf32>) -> tensor<12xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<12xf32> -> f32
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  } : tensor<12xf32>
  kernel.return %y : tensor<12xf32>
}

// One buffer from the first of the parts on; another type of the same memory is fine; an input is copied.
// CHECK-LABEL: wrapper.program @main
// CHECK-SAME: %[[X:.*]]: !wrapper.buffer<[12], [1], f32> {{.*}}, %[[C:.*]]: !wrapper.buffer<[1, 2, 4]
// CHECK-NEXT: %[[O:.*]] = wrapper.output 0
// CHECK-NEXT: %[[A:.*]] = wrapper.view %[[O]] offset 0 : <[1, s0 + 5, 4], {{.*}} -> <[1, s0, 4]
// CHECK-NEXT: wrapper.launch @make ins() outs(%[[A]] :
// CHECK-NEXT: %[[B:.*]] = wrapper.view %[[O]] offset 4*s0 : <[1, s0 + 5, 4], {{.*}} -> <[12]
// CHECK-NEXT: wrapper.launch @twice ins(%[[X]] : {{.*}}) outs(%[[B]] :
// CHECK-NEXT: wrapper.view %[[B]]
// CHECK-NEXT: %[[V:.*]] = wrapper.view %[[O]] offset 4*s0 + 12 : <[1, s0 + 5, 4], {{.*}} -> <[1, 2, 4]
// CHECK-NEXT: wrapper.copy %[[C]] to %[[V]]
// CHECK-NEXT: }
wrapper.program @main(%x: !wrapper.buffer<[12], [1], f32> {wrapper.name = "x"}, %c: !wrapper.buffer<[1, 2, 4], [8, 4, 1], f32> {wrapper.name = "c"})
    -> (!wrapper.buffer<[1, s0 + 5, 4], [4*s0 + 20, 4, 1], f32> {wrapper.name = "y"})
    attributes {symbols = {s0 = {min = 1 : i64}}} {
  %a = wrapper.alloc : !wrapper.buffer<[1, s0, 4], [4*s0, 4, 1], f32>
  wrapper.launch @make ins() outs(%a : !wrapper.buffer<[1, s0, 4], [4*s0, 4, 1], f32>)
  %b = wrapper.alloc : !wrapper.buffer<[12], [1], f32>
  wrapper.launch @twice ins(%x : !wrapper.buffer<[12], [1], f32>) outs(%b : !wrapper.buffer<[12], [1], f32>)
  %v = wrapper.view %b offset 0 : !wrapper.buffer<[12], [1], f32> -> !wrapper.buffer<[1, 3, 4], [12, 4, 1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[1, s0 + 5, 4], [4*s0 + 20, 4, 1], f32>
  wrapper.launch @join ins(%a, %v, %c : !wrapper.buffer<[1, s0, 4], [4*s0, 4, 1], f32>, !wrapper.buffer<[1, 3, 4], [12, 4, 1], f32>, !wrapper.buffer<[1, 2, 4], [8, 4, 1], f32>)
      outs(%y : !wrapper.buffer<[1, s0 + 5, 4], [4*s0 + 20, 4, 1], f32>)
}

// -----

// Rows of the parts take turns in memory; and of mostly inputs a kernel makes the result faster.
// CHECK: kernel.func @interleave
kernel.func @interleave(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>) -> tensor<2x7xf32> {
  %r = kernel.map {
    %0 = arith.constant 0.0 : f32
    %n = kernel.inside (d0, d1) -> (d1 - 3) bounds [4]
    %y = kernel.read %b (d0, d1) -> (d0, d1 - 3) if %n else(%0 : f32) : tensor<2x4xf32> -> f32
    %o = kernel.inside (d0, d1) -> (d1) bounds [3]
    %z = kernel.read %a (d0, d1) -> (d0, d1) if %o else(%y : f32) : tensor<2x3xf32> -> f32
    kernel.yield %z : f32
  } : tensor<2x7xf32>
  kernel.return %r : tensor<2x7xf32>
}
// CHECK: kernel.func @join
kernel.func @join(%a: tensor<2xf32>, %b: tensor<3xf32>) -> tensor<5xf32> {
  %r = kernel.map {
    %0 = arith.constant 0.0 : f32
    %n = kernel.inside (d0) -> (d0 - 2) bounds [3]
    %y = kernel.read %b (d0) -> (d0 - 2) if %n else(%0 : f32) : tensor<3xf32> -> f32
    %o = kernel.inside (d0) -> (d0) bounds [2]
    %z = kernel.read %a (d0) -> (d0) if %o else(%y : f32) : tensor<2xf32> -> f32
    kernel.yield %z : f32
  } : tensor<5xf32>
  kernel.return %r : tensor<5xf32>
}
// CHECK-LABEL: wrapper.program @main
// CHECK-COUNT-2: wrapper.alloc
// CHECK-NOT: wrapper.view
// CHECK: wrapper.launch @interleave
// CHECK: wrapper.launch @join
wrapper.program @main(%x: !wrapper.buffer<[2], [1], f32> {wrapper.name = "x"}, %y: !wrapper.buffer<[3], [1], f32> {wrapper.name = "y"})
    -> (!wrapper.buffer<[2, 7], [7, 1], f32> {wrapper.name = "y"}, !wrapper.buffer<[5], [1], f32> {wrapper.name = "z"}) {
  %a = wrapper.alloc : !wrapper.buffer<[2, 3], [3, 1], f32>
  %b = wrapper.alloc : !wrapper.buffer<[2, 4], [4, 1], f32>
  %o = wrapper.output 0 : !wrapper.buffer<[2, 7], [7, 1], f32>
  wrapper.launch @interleave ins(%a, %b : !wrapper.buffer<[2, 3], [3, 1], f32>, !wrapper.buffer<[2, 4], [4, 1], f32>) outs(%o : !wrapper.buffer<[2, 7], [7, 1], f32>)
  %p = wrapper.output 1 : !wrapper.buffer<[5], [1], f32>
  wrapper.launch @join ins(%x, %y : !wrapper.buffer<[2], [1], f32>, !wrapper.buffer<[3], [1], f32>) outs(%p : !wrapper.buffer<[5], [1], f32>)
}

// -----

// A part that stands there twice is made in one place and copied to the other.
kernel.func @join_twice(%a: tensor<4xf32>) -> tensor<8xf32> {
  %r = kernel.map {
    %0 = arith.constant 0.0 : f32
    %m = kernel.inside (d0) -> (d0 - 4) bounds [4]
    %x = kernel.read %a (d0) -> (d0 - 4) if %m else(%0 : f32) : tensor<4xf32> -> f32
    %n = kernel.inside (d0) -> (d0) bounds [4]
    %y = kernel.read %a (d0) -> (d0) if %n else(%x : f32) : tensor<4xf32> -> f32
    kernel.yield %y : f32
  } : tensor<8xf32>
  kernel.return %r : tensor<8xf32>
}
kernel.func @make_part() -> tensor<4xf32> {
  %y = kernel.map {
    %0 = arith.constant 0.0 : f32
    kernel.yield %0 : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}
// CHECK-LABEL: wrapper.program @same_twice
// CHECK-NEXT: %[[O:.*]] = wrapper.output 0
// CHECK-NEXT: %[[A:.*]] = wrapper.view %[[O]] offset 0
// CHECK-NEXT: wrapper.launch @make_part ins() outs(%[[A]] :
// CHECK-NEXT: %[[B:.*]] = wrapper.view %[[O]] offset 4
// CHECK-NEXT: wrapper.copy %[[A]] to %[[B]]
// CHECK-NEXT: }
wrapper.program @same_twice() -> (!wrapper.buffer<[8], [1], f32> {wrapper.name = "y"}) attributes {symbols = {}} {
  %a = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
  wrapper.launch @make_part ins() outs(%a : !wrapper.buffer<[4], [1], f32>)
  %y = wrapper.output 0 : !wrapper.buffer<[8], [1], f32>
  wrapper.launch @join_twice ins(%a : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[8], [1], f32>)
}
// An update behind the concatenation is seen in the part alone, or in the whole alone: they are two.
// CHECK-LABEL: wrapper.program @part_is_updated
// CHECK: wrapper.alloc
// CHECK: wrapper.launch @join_twice
wrapper.program @part_is_updated(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[8], [1], f32> {wrapper.name = "y"}) attributes {symbols = {}} {
  %a = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
  wrapper.launch @make_part ins() outs(%a : !wrapper.buffer<[4], [1], f32>)
  %y = wrapper.output 0 : !wrapper.buffer<[8], [1], f32>
  wrapper.launch @join_twice ins(%a : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[8], [1], f32>)
  wrapper.copy %x to %a : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}
// CHECK-LABEL: wrapper.program @whole_is_updated
// CHECK: wrapper.alloc
// CHECK: wrapper.launch @join_twice
wrapper.program @whole_is_updated(%x: !wrapper.buffer<[8], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[8], [1], f32> {wrapper.name = "y"}, !wrapper.buffer<[4], [1], f32> {wrapper.name = "z"}) attributes {symbols = {}} {
  %a = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
  wrapper.launch @make_part ins() outs(%a : !wrapper.buffer<[4], [1], f32>)
  %y = wrapper.output 0 : !wrapper.buffer<[8], [1], f32>
  wrapper.launch @join_twice ins(%a : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[8], [1], f32>)
  wrapper.copy %x to %y : !wrapper.buffer<[8], [1], f32> to !wrapper.buffer<[8], [1], f32>
  %z = wrapper.output 1 : !wrapper.buffer<[4], [1], f32>
  wrapper.copy %a to %z : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
}
