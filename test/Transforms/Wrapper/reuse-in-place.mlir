// RUN: kiln-opt %s --wrapper-reuse-in-place --split-input-file | FileCheck %s

kernel.func @twice(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<2x8xf32> -> f32
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  } : tensor<2x8xf32>
  kernel.return %y : tensor<2x8xf32>
}
// In memory the same place, whatever the shapes.
kernel.func @flat(%x: tensor<2x8xf32>) -> tensor<16xi32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0 floordiv 8, d0 mod 8) : tensor<2x8xf32> -> f32
    %b = arith.fptosi %a : f32 to i32
    kernel.yield %b : i32
  } : tensor<16xi32>
  kernel.return %y : tensor<16xi32>
}
kernel.func @flip(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, 7 - d1) : tensor<2x8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<2x8xf32>
  kernel.return %y : tensor<2x8xf32>
}
kernel.func @narrow(%x: tensor<2x8xf32>) -> tensor<4x8xf16> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (0, 0) : tensor<2x8xf32> -> f32
    %b = arith.truncf %a : f32 to f16
    kernel.yield %b : f16
  } : tensor<4x8xf16>
  kernel.return %y : tensor<4x8xf16>
}

// CHECK-LABEL: wrapper.program @main
wrapper.program @main(%x: !wrapper.buffer<[2, 8], [8, 1], f32> {wrapper.name = "x"})
    -> (!wrapper.buffer<[4, 8], [8, 1], f16> {wrapper.name = "y"}) {
  // An input is not ours to overwrite.
  // CHECK: %[[A:.*]] = wrapper.alloc
  %a = wrapper.alloc : !wrapper.buffer<[2, 8], [8, 1], f32>
  wrapper.launch @twice ins(%x : !wrapper.buffer<[2, 8], [8, 1], f32>) outs(%a : !wrapper.buffer<[2, 8], [8, 1], f32>)
  // CHECK: %[[B:.*]] = wrapper.alloc
  %b = wrapper.alloc : !wrapper.buffer<[2, 8], [8, 1], f32>
  // Somebody reads %a later.
  wrapper.launch @twice ins(%a : !wrapper.buffer<[2, 8], [8, 1], f32>) outs(%b : !wrapper.buffer<[2, 8], [8, 1], f32>)
  // CHECK: %[[C:.*]] = wrapper.view %[[A]] offset 0
  %c = wrapper.alloc : !wrapper.buffer<[2, 8], [8, 1], f32>
  // CHECK: wrapper.launch @twice ins(%[[A]] : {{.*}}) outs(%[[C]] :
  wrapper.launch @twice ins(%a : !wrapper.buffer<[2, 8], [8, 1], f32>) outs(%c : !wrapper.buffer<[2, 8], [8, 1], f32>)
  // CHECK: %[[D:.*]] = wrapper.view %[[C]] offset 0 : {{.*}} -> <[16], [1], i32>
  %d = wrapper.alloc : !wrapper.buffer<[16], [1], i32>
  wrapper.launch @flat ins(%c : !wrapper.buffer<[2, 8], [8, 1], f32>) outs(%d : !wrapper.buffer<[16], [1], i32>)
  // Other elements are read than are written.
  // CHECK: %[[E:.*]] = wrapper.alloc
  %e = wrapper.alloc : !wrapper.buffer<[2, 8], [8, 1], f32>
  wrapper.launch @flip ins(%b : !wrapper.buffer<[2, 8], [8, 1], f32>) outs(%e : !wrapper.buffer<[2, 8], [8, 1], f32>)
  // As many bytes, but elements of another size.
  // CHECK: wrapper.alloc : <[4, 8]
  %f = wrapper.alloc : !wrapper.buffer<[4, 8], [8, 1], f16>
  wrapper.launch @narrow ins(%e : !wrapper.buffer<[2, 8], [8, 1], f32>) outs(%f : !wrapper.buffer<[4, 8], [8, 1], f16>)
  %y = wrapper.output 0 : !wrapper.buffer<[4, 8], [8, 1], f16>
  wrapper.copy %f to %y : !wrapper.buffer<[4, 8], [8, 1], f16> to !wrapper.buffer<[4, 8], [8, 1], f16>
}

// -----

// A library may write in place to what ends at the call; not to what is read later, nor to what the call reads elsewhere.
// CHECK-LABEL: wrapper.program @main
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) {
  // CHECK: %[[A:.*]] = wrapper.alloc
  %a = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
  wrapper.extern_call "torch" "aten.special_airy_ai.default" args = [#sym.arg<0>] ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%a : !wrapper.buffer<[4], [1], f32>) projection = [0]
  // CHECK: %[[B:.*]] = wrapper.view %[[A]] offset 0
  // CHECK: wrapper.extern_call "torch" "lib.op_.default" args = [#sym.arg<0>] ins(%[[A]] : {{.*}}) outs(%[[B]] :
  %b = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
  wrapper.extern_call "torch" "lib.op_.default" args = [#sym.arg<0>] ins(%a : !wrapper.buffer<[4], [1], f32>) outs(%b : !wrapper.buffer<[4], [1], f32>) projection = [] updates = [0]
  // CHECK: %[[C:.*]] = wrapper.alloc
  // CHECK: wrapper.extern_call "torch" "lib.op_.default" args = [#sym.arg<0>, #sym.arg<1>] ins(%[[B]], %[[B]] : {{.*}}) outs(%[[C]] :
  %c = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
  wrapper.extern_call "torch" "lib.op_.default" args = [#sym.arg<0>, #sym.arg<1>] ins(%b, %b : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[4], [1], f32>) outs(%c : !wrapper.buffer<[4], [1], f32>) projection = [] updates = [0]
  // CHECK: %[[D:.*]] = wrapper.alloc
  // CHECK: wrapper.extern_call "torch" "lib.op_.default" args = [#sym.arg<0>] ins(%[[C]] : {{.*}}) outs(%[[D]] :
  %d = wrapper.alloc : !wrapper.buffer<[4], [1], f32>
  wrapper.extern_call "torch" "lib.op_.default" args = [#sym.arg<0>] ins(%c : !wrapper.buffer<[4], [1], f32>) outs(%d : !wrapper.buffer<[4], [1], f32>) projection = [] updates = [0]
  wrapper.extern_call "torch" "aten._assert_async.default" args = [#sym.arg<0>] ins(%c : !wrapper.buffer<[4], [1], f32>) outs() projection = []
}
