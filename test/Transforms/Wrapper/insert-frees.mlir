// RUN: kiln-opt %s --wrapper-insert-frees | FileCheck %s

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}

// CHECK-LABEL: wrapper.program @main
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"})
    -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"}) {
  // CHECK: %[[A:.*]] = wrapper.alloc
  %a = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
  // Nobody uses this one.
  // CHECK-NOT: wrapper.alloc : <[5]
  %unused = wrapper.alloc : !wrapper.buffer<[5], [1], f32>
  wrapper.launch @k ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%a : !wrapper.buffer<[4], [1], f32>)
  // A use of a view is a use of the memory.
  // CHECK: %[[V:.*]] = wrapper.view %[[A]]
  %v = wrapper.view %a offset 0 : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[4], [1], f32>
  // CHECK: %[[B:.*]] = wrapper.alloc
  %b = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
  // CHECK: wrapper.launch @k ins(%[[V]] : {{.*}}) outs(%[[B]] :
  // CHECK-NEXT: wrapper.free %[[A]]
  wrapper.launch @k ins(%v : !wrapper.buffer<[4], [1], f32>) outs(%b : !wrapper.buffer<[4], [1], f32>)
  // CHECK: %[[R:.*]] = wrapper.reuse %[[B]]
  %r = wrapper.reuse %b : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[2, 2], [2, 1], f32>
  %w = wrapper.view %r offset 0 : !wrapper.buffer<[2, 2], [2, 1], f32> -> !wrapper.buffer<[4], [1], f32>
  wrapper.launch @k ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%w : !wrapper.buffer<[4], [1], f32>)
  // CHECK: wrapper.output
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  // CHECK-NEXT: wrapper.launch
  // CHECK-NEXT: wrapper.free %[[R]]
  // CHECK-NOT: wrapper.free
  wrapper.launch @k ins(%w : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>)
}

// What a function gives stays: the caller reads it.
// CHECK-LABEL: wrapper.func private @giving
wrapper.func private @giving(%x: !wrapper.buffer<[4], [1], f32>)
    -> (!wrapper.buffer<[4], [1], f32> {wrapper.given}) {
  // CHECK: %[[A:.*]] = wrapper.alloc
  // CHECK-NEXT: wrapper.launch
  // CHECK-NEXT: wrapper.view
  // CHECK-NEXT: wrapper.give
  // CHECK-NOT: wrapper.free
  // CHECK: }
  %a = wrapper.alloc : !wrapper.buffer<[2, 2], [2, 1], f32>
  wrapper.launch @square ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%a : !wrapper.buffer<[2, 2], [2, 1], f32>)
  %v = wrapper.view %a offset 0 : !wrapper.buffer<[2, 2], [2, 1], f32> -> !wrapper.buffer<[4], [1], f32>
  wrapper.give %v as 0 : !wrapper.buffer<[4], [1], f32>
}

kernel.func @square(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (2*d0 + d1) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<2x2xf32>
  kernel.return %y : tensor<2x2xf32>
}
