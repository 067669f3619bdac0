// RUN: kiln-opt %s --kernel-lower-to-wrapper --split-input-file | FileCheck %s

kernel.func @relu(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<2x3xf32> -> f32
    kernel.yield %a : f32
  } : tensor<2x3xf32>
  kernel.return %y : tensor<2x3xf32>
}

// The first result that is returned is computed in place; the same value again, an input, a constant
// and a value with other strides are copied; None is nothing.
// CHECK-LABEL: wrapper.program @main
// CHECK-SAME: (%[[X:.*]]: !wrapper.buffer<[2, 3], [3, 1], f32> {wrapper.name = "x"})
// CHECK-SAME: -> (!wrapper.buffer<[2, 3], [3, 1], f32> {wrapper.name = "first"},
// CHECK-SAME: !wrapper.buffer<[2, 3], [3, 1], f32> {wrapper.name = "again"},
// CHECK-SAME: !wrapper.buffer<[2, 3], [3, 1], f32> {wrapper.name = "input"},
// CHECK-SAME: !wrapper.buffer<[2, 3], [3, 1], f32> {wrapper.name = "constant"},
// CHECK-SAME: none {wrapper.name = "nothing"},
// CHECK-SAME: !wrapper.buffer<[2, 3], [1, 2], f32> {wrapper.name = "transposed"})
func.func @main(%x: tensor<2x3xf32> {torch.name = "x"})
    -> (tensor<2x3xf32> {torch.name = "first", torch.strides = #sym.shape<[3, 1]>},
        tensor<2x3xf32> {torch.name = "again"}, tensor<2x3xf32> {torch.name = "input"},
        tensor<2x3xf32> {torch.name = "constant"}, none {torch.name = "nothing"},
        tensor<2x3xf32> {torch.name = "transposed", torch.strides = #sym.shape<[1, 2]>}) {
  // CHECK: %[[W:.*]] = wrapper.constant "w" dense<1.000000e+00>
  %w = kernel.constant "w" dense<1.0> : tensor<2x3xf32> : tensor<2x3xf32>
  %n = torch.none : none
  // CHECK: %[[A:.*]] = wrapper.alloc
  // CHECK: wrapper.launch @relu ins(%[[X]] : {{.*}}) outs(%[[A]] :
  %a = kernel.call @relu(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: %[[FIRST:.*]] = wrapper.output 0
  // CHECK: wrapper.launch @relu ins(%[[A]] : {{.*}}) outs(%[[FIRST]] :
  %b = kernel.call @relu(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: %[[C:.*]] = wrapper.alloc
  // CHECK: wrapper.launch @relu ins(%[[FIRST]] : {{.*}}) outs(%[[C]] :
  %c = kernel.call @relu(%b) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: %[[O1:.*]] = wrapper.output 1
  // CHECK: wrapper.copy %[[FIRST]] to %[[O1]]
  // CHECK: %[[O2:.*]] = wrapper.output 2
  // CHECK: wrapper.copy %[[X]] to %[[O2]]
  // CHECK: %[[O3:.*]] = wrapper.output 3
  // CHECK: wrapper.copy %[[W]] to %[[O3]]
  // CHECK: %[[O5:.*]] = wrapper.output 5
  // CHECK: wrapper.copy %[[C]] to %[[O5]] : <[2, 3], [3, 1], f32> to <[2, 3], [1, 2], f32>
  return %b, %b, %x, %w, %n, %c : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, none, tensor<2x3xf32>
}

// -----

// Sizes stay expressions, and strides of dimensions of size 1 do not matter.
// CHECK-LABEL: wrapper.program @main
// CHECK-SAME: !wrapper.buffer<[1, s0], [s0, 1], f32> {wrapper.name = "y"}
// CHECK-SAME: symbols = {s0 = {max = 8 : i64, min = 2 : i64}}
module attributes {sym.symbols = {s0 = {min = 2, max = 8}}} {
  kernel.func @relu(%x: tensor<1x?xf32, #sym.shape<[1, s0]>>) -> tensor<1x?xf32, #sym.shape<[1, s0]>> {
    %y = kernel.map {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<1x?xf32, #sym.shape<[1, s0]>> -> f32
      kernel.yield %a : f32
    } : tensor<1x?xf32, #sym.shape<[1, s0]>>
    kernel.return %y : tensor<1x?xf32, #sym.shape<[1, s0]>>
  }
  func.func @main(%x: tensor<1x?xf32, #sym.shape<[1, s0]>> {torch.name = "x"})
      -> (tensor<1x?xf32, #sym.shape<[1, s0]>> {torch.name = "y", torch.strides = #sym.shape<[1, 1]>}) {
    // CHECK: %[[O:.*]] = wrapper.output 0
    // CHECK: wrapper.launch @relu ins({{.*}}) outs(%[[O]] :
    // CHECK-NOT: wrapper.copy
    %y = kernel.call @relu(%x) : (tensor<1x?xf32, #sym.shape<[1, s0]>>) -> tensor<1x?xf32, #sym.shape<[1, s0]>>
    return %y : tensor<1x?xf32, #sym.shape<[1, s0]>>
  }
}

// -----

kernel.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}

// New values of inputs and buffers are written last; one that another move overwrites is saved.
// CHECK-LABEL: wrapper.program @main
// CHECK-SAME: (%[[X:.*]]: !wrapper.buffer<[4], [1], f32> {wrapper.mutated, wrapper.name = "x"},
// CHECK-SAME: %[[Z:.*]]: !wrapper.buffer<[4], [1], f32> {wrapper.mutated, wrapper.name = "z"})
// CHECK-SAME: -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "old"})
func.func @main(%x: tensor<4xf32> {torch.name = "x"}, %z: tensor<4xf32> {torch.name = "z"})
    -> (tensor<4xf32> {torch.name = "old"},
        tensor<4xf32> {torch.mutates = "x", torch.mutates_kind = "input"},
        tensor<4xf32> {torch.mutates = "z", torch.mutates_kind = "input"},
        tensor<4xf32> {torch.mutates = "running", torch.mutates_kind = "buffer"}) {
  // CHECK: %[[B:.*]] = wrapper.constant "running" mutated
  %running = kernel.constant "running" dense<0.0> : tensor<4xf32> : tensor<4xf32>
  // CHECK: %[[N:.*]] = wrapper.alloc
  // CHECK: wrapper.launch @twice ins(%[[B]] : {{.*}}) outs(%[[N]] :
  %new = kernel.call @twice(%running) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %[[O:.*]] = wrapper.output 0
  // CHECK: wrapper.copy %[[X]] to %[[O]]
  // CHECK: %[[SX:.*]] = wrapper.alloc
  // CHECK: wrapper.copy %[[Z]] to %[[SX]]
  // CHECK: %[[SZ:.*]] = wrapper.alloc
  // CHECK: wrapper.copy %[[X]] to %[[SZ]]
  // CHECK: wrapper.copy %[[SX]] to %[[X]]
  // CHECK: wrapper.copy %[[SZ]] to %[[Z]]
  // CHECK: wrapper.copy %[[N]] to %[[B]]
  return %x, %z, %x, %new : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// What two results of a kernel were folded to is one fold; a result that nothing reads has a constant
// all the same.
// CHECK-LABEL: wrapper.program @main
// CHECK: %[[W:.*]] = wrapper.constant "w"
// CHECK: %[[A:.*]] = wrapper.constant dense<1.0
// CHECK: %[[B:.*]] = wrapper.constant dense<2.0
// CHECK: %[[C:.*]] = wrapper.constant dense<3.0
// CHECK: wrapper.fold @two ins(%[[W]] : {{.*}}) outs(%[[A]], %[[B]] :
// CHECK: %[[UNREAD:.*]] = wrapper.constant dense<0.0
// CHECK: wrapper.fold @two ins(%[[A]] : {{.*}}) outs(%[[UNREAD]], %[[C]] :
kernel.func @two(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %y:2 = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<2xf32> -> f32
    %n = arith.negf %a : f32
    kernel.yield %a, %n : f32, f32
  } : tensor<2xf32>, tensor<2xf32>
  kernel.return %y#0, %y#1 : tensor<2xf32>, tensor<2xf32>
}
func.func @main() -> (tensor<2xf32> {torch.name = "a"}, tensor<2xf32> {torch.name = "b"}, tensor<2xf32> {torch.name = "c"}) {
  %w = kernel.constant "w" dense<1.0> : tensor<2xf32> : tensor<2xf32>
  %a = kernel.constant dense<1.0> : tensor<2xf32> from @two result 0 of (%w : tensor<2xf32>) : tensor<2xf32>
  %b = kernel.constant dense<2.0> : tensor<2xf32> from @two result 1 of (%w : tensor<2xf32>) : tensor<2xf32>
  %c = kernel.constant dense<3.0> : tensor<2xf32> from @two result 1 of (%a : tensor<2xf32>) : tensor<2xf32>
  return %a, %b, %c : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// What has to be checked of the inputs comes first.
// CHECK-LABEL: wrapper.program @main
// CHECK-NEXT: wrapper.assert 2*s1 - s0, "expected x.size()[0] <= 2*y.size()[0]"
module attributes {
    sym.symbols = {s0 = {min = 1 : i64}, s1 = {min = 1 : i64}},
    torch.guards = [{expr = #sym.expr<2*s1 - s0>, text = "x.size()[0] <= 2*y.size()[0]"}]} {
  func.func @main(%x: tensor<?xf32, #sym.shape<[s0]>> {torch.name = "x"},
                  %y: tensor<?xf32, #sym.shape<[s1]>> {torch.name = "y"})
      -> (tensor<?xf32, #sym.shape<[s0]>> {torch.name = "z"}) {
    return %x : tensor<?xf32, #sym.shape<[s0]>>
  }
}

// -----

// What comes from data keeps its place among the launches; a size that may be negative is asserted.
// CHECK-LABEL: wrapper.program @main
module attributes {sym.symbols = {u0 = {min = 0}, u1 = {}}} {
  kernel.func @fill() -> tensor<?x?xf32, #sym.shape<[u0, u1]>> {
    %y = kernel.map {
      %a = arith.constant 1.0 : f32
      kernel.yield %a : f32
    } : tensor<?x?xf32, #sym.shape<[u0, u1]>>
    kernel.return %y : tensor<?x?xf32, #sym.shape<[u0, u1]>>
  }
  func.func @main(%n: tensor<i64> {torch.name = "n"}, %ok: tensor<i1> {torch.name = "ok"})
      -> (tensor<?x?xf32, #sym.shape<[u0, u1]>> {torch.name = "y"}) {
    // CHECK: wrapper.define "u0" from %arg0
    // CHECK-NEXT: wrapper.assert u0, "not negative"
    kernel.define "u0" from %n : tensor<i64>
    kernel.assert u0, "not negative"
    // CHECK-NEXT: wrapper.define "u1" = 2*u0
    kernel.define "u1" = 2*u0
    // CHECK-NEXT: wrapper.check %arg1, "not so"
    kernel.check %ok, "not so" : tensor<i1>
    // CHECK-NEXT: wrapper.assert u1, "a tensor's size, u1, is negative (node 'ones' (model.py:3))"
    // CHECK-NEXT: %[[Y:.*]] = wrapper.output 0
    // CHECK-NEXT: wrapper.launch @fill
    %y = kernel.call @fill() : () -> tensor<?x?xf32, #sym.shape<[u0, u1]>> loc(#ones)
    return %y : tensor<?x?xf32, #sym.shape<[u0, u1]>>
  }
}
#line = loc("model.py":3:0)
#ones = loc("ones"(#line))

// -----

// Calls of libraries: results that are outputs are put there; what is updated is copied by the call, also back to an input.
// CHECK-LABEL: module attributes {sym.symbols = {s0 = {min = 2 : i64}}}
// CHECK: wrapper.program @main
// CHECK-SAME: %[[X:.*]]: !wrapper.buffer<[4], [1], f32> {wrapper.mutated, wrapper.name = "x"}
// CHECK-DAG: %[[A:.*]] = wrapper.alloc : <[4], [1], f32>
// CHECK-DAG: %[[Y:.*]] = wrapper.output 0 : <[2], [1], i64>
// CHECK: wrapper.extern_call "torch" "lib.op.default" args = [#sym.arg<0>, #sym.expr<s0>] names = ["self", "n"] ins(%[[X]] : {{.*}}) outs(%[[Y]], %[[A]] : {{.*}}) projection = [1] updates = [0]
// CHECK: wrapper.extern_call "torch" "aten._assert_async.default" args = [#sym.arg<0>] ins(%[[A]] : {{.*}}) outs() projection = []
// CHECK: wrapper.copy %[[A]] to %[[X]]
module attributes {sym.symbols = {s0 = {min = 2 : i64}}} {
  func.func @main(%x: tensor<4xf32> {torch.name = "x"})
      -> (tensor<2xi64> {torch.name = "y"}, tensor<4xf32> {torch.mutates = "x", torch.mutates_kind = "input"}) {
    %y, %new = kernel.extern "torch" "lib.op.default"(%x) args = [#sym.arg<0>, #sym.expr<s0>] names = ["self", "n"] projection = [1] updates = [0]
        : (tensor<4xf32>) -> (tensor<2xi64>, tensor<4xf32>)
    kernel.extern "torch" "aten._assert_async.default"(%new) args = [#sym.arg<0>] projection = [] impure : (tensor<4xf32>) -> ()
    return %y, %new : tensor<2xi64>, tensor<4xf32>
  }
}

// -----

// A span is a view.
// CHECK-LABEL: kernel.func @row
// CHECK: wrapper.program @main(%[[X:.*]]: !wrapper.buffer<[8, 64], [64, 1], f32>
// CHECK: %[[S:.*]] = wrapper.view %[[X]] offset 192 : <[8, 64], [64, 1], f32> -> <[64], [1], f32>
// CHECK: wrapper.launch @row ins(%[[S]] : !wrapper.buffer<[64], [1], f32>)
kernel.func @row(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<64xf32> -> f32
    kernel.yield %a : f32
  } : tensor<64xf32>
  kernel.return %y : tensor<64xf32>
}
func.func @main(%x: tensor<8x64xf32> {torch.name = "x"}) -> (tensor<64xf32> {torch.name = "y"}) {
  %s = kernel.span %x from 192 : tensor<8x64xf32> -> tensor<64xf32>
  %y = kernel.call @row(%s) : (tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}

// -----

// A buffer that nothing reads here is written if other programs read it.
// CHECK-NOT: torch.shared_state
// CHECK: wrapper.program @main
// CHECK: %[[B:.*]] = wrapper.constant "shared" mutated dense<3.000000e+00> : tensor<4xf32>
// CHECK-NOT: "alone"
// CHECK: wrapper.copy %arg0 to %[[B]]
// CHECK-NOT: wrapper.copy
module attributes {torch.shared_state = {shared = dense<3.0> : tensor<4xf32>}} {
  func.func @main(%x: tensor<4xf32> {torch.name = "x"})
      -> (tensor<4xf32> {torch.mutates = "shared", torch.mutates_kind = "buffer"}, tensor<4xf32> {torch.mutates = "alone", torch.mutates_kind = "buffer"}) {
    return %x, %x : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// CHECK: wrapper.program @main
// CHECK: %[[Q:.*]] = wrapper.alloc : <[4, 8], [8, 1], ui8>
// CHECK: %[[W:.*]] = wrapper.view %[[Q]] offset 0 : <[4, 8], [8, 1], ui8> -> <[4, 2], [2, 1], i32>
// CHECK: wrapper.launch @add ins(%[[W]] : !wrapper.buffer<[4, 2], [2, 1], i32>)
kernel.func @quantize(%x: tensor<4x8xf32>) -> tensor<4x8xui8> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
    %b = arith.fptoui %a : f32 to i8
    kernel.yield %b : i8
  } : tensor<4x8xui8>
  kernel.return %y : tensor<4x8xui8>
}
kernel.func @add(%x: tensor<4x2xi32>) -> tensor<4x2xi32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<4x2xi32> -> i32
    %b = arith.addi %a, %a : i32
    kernel.yield %b : i32
  } : tensor<4x2xi32>
  kernel.return %y : tensor<4x2xi32>
}
func.func @main(%x: tensor<4x8xf32> {torch.name = "x"}) -> (tensor<4x2xi32> {torch.name = "y"}) {
  %q = kernel.call @quantize(%x) : (tensor<4x8xf32>) -> tensor<4x8xui8>
  %w = kernel.bitcast %q : tensor<4x8xui8> -> tensor<4x2xi32>
  %y = kernel.call @add(%w) : (tensor<4x2xi32>) -> tensor<4x2xi32>
  return %y : tensor<4x2xi32>
}

// -----

// A collective is a call of a library, into the output's memory.
// CHECK: wrapper.program @main({{.*}}[n + 1]
// CHECK: %[[ALL:.*]] = wrapper.output 0
// CHECK: wrapper.extern_call "collectives" "all_to_all" args = [#sym.arg<0>, "0", 2, false, unit, unit, [#sym.expr<1>, #sym.expr<n>], [#sym.expr<n>, #sym.expr<1>]]
// CHECK-SAME: outs(%[[ALL]] :
// CHECK: wrapper.extern_call "collectives" "reduce_scatter" args = [#sym.arg<0>, "tp", 4, true, "sum", unit, unit, unit]
// CHECK: wrapper.extern_call "collectives" "broadcast" args = [#sym.arg<0>, "tp", 4, true, unit, 3, unit, unit]
module attributes {sym.symbols = {n = {min = 1 : i64}}} {
  func.func @main(%x: tensor<?xf32, #sym.shape<[n + 1]>> {torch.name = "x"}, %y: tensor<8xf32> {torch.name = "y"})
      -> (tensor<?xf32, #sym.shape<[n + 1]>> {torch.name = "a"}, tensor<2xf32> {torch.name = "b"}, tensor<8xf32> {torch.name = "c"}) {
    %a = kernel.collective "all_to_all"(%x) send <[1, n]> receive <[n, 1]> group "0" of 2 : tensor<?xf32, #sym.shape<[n + 1]>> -> tensor<?xf32, #sym.shape<[n + 1]>>
    %b = kernel.collective "reduce_scatter"(%y) reduction "sum" group "tp" of 4 : tensor<8xf32> -> tensor<2xf32>
    %c = kernel.collective "broadcast"(%y) root 3 group "tp" of 4 : tensor<8xf32> -> tensor<8xf32>
    return %a, %b, %c : tensor<?xf32, #sym.shape<[n + 1]>>, tensor<2xf32>, tensor<8xf32>
  }
}
