// RUN: kiln-opt %s | kiln-opt | FileCheck %s
// RUN: kiln-opt --mlir-print-op-generic %s | kiln-opt | FileCheck %s

kernel.func @twice(%x: tensor<?x8xf32, #sym.shape<[s0, 8]>>) -> tensor<?x8xf32, #sym.shape<[s0, 8]>> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<?x8xf32, #sym.shape<[s0, 8]>> -> f32
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  } : tensor<?x8xf32, #sym.shape<[s0, 8]>>
  kernel.return %y : tensor<?x8xf32, #sym.shape<[s0, 8]>>
}

// CHECK: wrapper.program @main(%[[X:.*]]: !wrapper.buffer<[s0, 8], [8, 1], f32> {wrapper.mutated, wrapper.name = "x"})
// CHECK-SAME: -> (!wrapper.buffer<[s0, 8], [1, s0], f32> {wrapper.name = "y"}, none {wrapper.name = "z"})
// CHECK-SAME: attributes {arena_bytes = #sym.expr<32*s0>, symbols = {s0 = {max = 64 : i64, min = 2 : i64}}, weights_bytes = 64 : i64}
wrapper.program @main(%x: !wrapper.buffer<[s0, 8], [8, 1], f32> {wrapper.name = "x", wrapper.mutated})
    -> (!wrapper.buffer<[s0, 8], [1, s0], f32> {wrapper.name = "y"}, none {wrapper.name = "z"})
    attributes {arena_bytes = #sym.expr<32*s0>, weights_bytes = 64 : i64,
                symbols = {s0 = {min = 2, max = 64}}} {
  // CHECK: wrapper.comment "one of each"
  wrapper.comment "one of each"
  // CHECK: wrapper.assert s0 - 2, "s0 must be at least 2"
  wrapper.assert s0 - 2, "s0 must be at least 2"
  // CHECK: wrapper.constant "w" at 0 dense<1.000000e+00> : tensor<8xf32> to <[8], [1], f32>
  %w = wrapper.constant "w" at 0 dense<1.0> : tensor<8xf32> to !wrapper.buffer<[8], [1], f32>
  // CHECK: wrapper.constant mutated dense<true> : tensor<i1> to <[], [], i1>
  %m = wrapper.constant mutated dense<true> : tensor<i1> to !wrapper.buffer<[], [], i1>
  // CHECK: %[[A:.*]] = wrapper.alloc at 0 : <[s0, 8], [8, 1], f32>
  %a = wrapper.alloc at 0 : !wrapper.buffer<[s0, 8], [8, 1], f32>
  // CHECK: wrapper.launch @twice ins(%[[X]] : !wrapper.buffer<[s0, 8], [8, 1], f32>) outs(%[[A]] : !wrapper.buffer<[s0, 8], [8, 1], f32>)
  wrapper.launch @twice ins(%x : !wrapper.buffer<[s0, 8], [8, 1], f32>)
      outs(%a : !wrapper.buffer<[s0, 8], [8, 1], f32>)
  // CHECK: wrapper.launch @twice ins({{.*}}) outs({{.*}}) {alternatives = [@twice], when = [#sym.expr<s0 - 8>]}
  wrapper.launch @twice ins(%x : !wrapper.buffer<[s0, 8], [8, 1], f32>)
      outs(%a : !wrapper.buffer<[s0, 8], [8, 1], f32>) {alternatives = [@twice], when = [#sym.expr<s0 - 8>]}
  // CHECK: %[[B:.*]] = wrapper.alloc at 0 : <[s0, 8], [8, 1], f32>
  %b = wrapper.alloc at 0 : !wrapper.buffer<[s0, 8], [8, 1], f32>
  // CHECK: wrapper.extern_call "torch" "lib.op_.default" args = [#sym.arg<0>, #sym.arg<1>, [#sym.expr<s0 - 1>, unit]] names = ["self", "other", "sizes"] ins(%[[A]], %[[X]] : !wrapper.buffer<[s0, 8], [8, 1], f32>, !wrapper.buffer<[s0, 8], [8, 1], f32>) outs(%[[B]] : !wrapper.buffer<[s0, 8], [8, 1], f32>) projection = [] updates = [0]
  wrapper.extern_call "torch" "lib.op_.default" args = [#sym.arg<0>, #sym.arg<1>, [#sym.expr<s0 - 1>, unit]]
      names = ["self", "other", "sizes"]
      ins(%a, %x : !wrapper.buffer<[s0, 8], [8, 1], f32>, !wrapper.buffer<[s0, 8], [8, 1], f32>)
      outs(%b : !wrapper.buffer<[s0, 8], [8, 1], f32>) projection = [] updates = [0]
  // CHECK: wrapper.extern_call "torch" "aten._assert_async.default" args = [#sym.arg<0>] ins(%[[B]] : !wrapper.buffer<[s0, 8], [8, 1], f32>) outs() projection = []
  wrapper.extern_call "torch" "aten._assert_async.default" args = [#sym.arg<0>] ins(%b : !wrapper.buffer<[s0, 8], [8, 1], f32>) outs() projection = []
  // CHECK: wrapper.extern_call "torch" "lib.where.default" {{.*}} projection = [] sizes = [0, 1, 2, -1]
  %n = wrapper.alloc at 0 : !wrapper.buffer<[], [], i64>
  %m64 = wrapper.alloc at 0 : !wrapper.buffer<[], [], i64>
  %kept = wrapper.alloc at 0 : !wrapper.buffer<[], [], i64>
  wrapper.extern_call "torch" "lib.where.default" args = [#sym.arg<0>] ins(%b : !wrapper.buffer<[s0, 8], [8, 1], f32>)
      outs(%n, %m64, %kept : !wrapper.buffer<[], [], i64>, !wrapper.buffer<[], [], i64>, !wrapper.buffer<[], [], i64>) projection = [] sizes = [0, 1, 2, -1]
  // CHECK: wrapper.output 0 : <[s0, 8], [1, s0], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[s0, 8], [1, s0], f32>
  // CHECK: wrapper.copy %[[A]] to %{{.*}} : <[s0, 8], [8, 1], f32> to <[s0, 8], [1, s0], f32>
  wrapper.copy %a to %y : !wrapper.buffer<[s0, 8], [8, 1], f32> to !wrapper.buffer<[s0, 8], [1, s0], f32>
  // CHECK: %[[V:.*]] = wrapper.view %[[A]] offset 4*s0 : {{.*}} -> <[s0, 4], [4, 1], f32>
  %v = wrapper.view %a offset 4*s0 : !wrapper.buffer<[s0, 8], [8, 1], f32> -> !wrapper.buffer<[s0, 4], [4, 1], f32>
  // CHECK: %[[R:.*]] = wrapper.reuse %[[A]] : {{.*}} -> <[s0, 4], [4, 1], f64>
  %r = wrapper.reuse %a : !wrapper.buffer<[s0, 8], [8, 1], f32> -> !wrapper.buffer<[s0, 4], [4, 1], f64>
  // CHECK: wrapper.free %[[R]]
  wrapper.free %r : !wrapper.buffer<[s0, 4], [4, 1], f64>
}

kernel.func @pack(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (3 - d0) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}
// CHECK: wrapper.program @folds
wrapper.program @folds() {
  %a = wrapper.constant "w" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  %b = wrapper.constant at 0 dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // CHECK: wrapper.fold @pack ins(%{{.*}} : !wrapper.buffer<[4], [1], f32>) outs(%{{.*}} : !wrapper.buffer<[4], [1], f32>)
  wrapper.fold @pack ins(%a : !wrapper.buffer<[4], [1], f32>) outs(%b : !wrapper.buffer<[4], [1], f32>)
}

// A size that data gives.
// CHECK: wrapper.program @unbacked(%[[N:.*]]: !wrapper.buffer<[], [], i64>
wrapper.program @unbacked(%n: !wrapper.buffer<[], [], i64> {wrapper.name = "n"},
                          %ok: !wrapper.buffer<[], [], i1> {wrapper.name = "ok"})
    attributes {arena_bytes = #sym.expr<0>, symbols = {u0 = {min = 0}, u1 = {}}} {
  // CHECK: wrapper.define "u0" from %[[N]] : !wrapper.buffer<[], [], i64>
  wrapper.define "u0" from %n : !wrapper.buffer<[], [], i64>
  // CHECK: wrapper.assert u0, "not negative"
  wrapper.assert u0, "not negative"
  // CHECK: wrapper.define "u1" = max(u0 - 3, 0)
  wrapper.define "u1" = max(u0 - 3, 0)
  // CHECK: wrapper.check %{{.*}}, "not so" : <[], [], i1>
  wrapper.check %ok, "not so" : !wrapper.buffer<[], [], i1>
  // CHECK: wrapper.reserve 1, 64*(u0 ceildiv 16) + 64
  wrapper.reserve 1, 64*(u0 ceildiv 16) + 64
  // CHECK: wrapper.alloc at 64 in 1 : <[u0], [1], f32>
  %a = wrapper.alloc at 64 in 1 : !wrapper.buffer<[u0], [1], f32>
}
