// RUN: kiln-opt %s --wrapper-lower-to-llvm="name=tiny compiler=kiln" --split-input-file | FileCheck %s

// Steps are numbered in the order of the text, nested graphs first here; two launches share a kernel's row.
// Of a row of 8 elements: the sum, then a difference and a quotient for each.
kernel.func @rows(%x: tensor<4x8xf32>, %scale: tensor<4xf32>) -> tensor<4x8xf32> attributes {launch = #kernel.launch<grid = <9>>} {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.read %scale (d0, d1) -> (d0) : tensor<4xf32> -> f32
    %sum = kernel.reduce [8] init(%zero : f32) {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4x8xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      kernel.yield %r : f32
    } : f32
    %mean = arith.mulf %sum, %s : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
    %b = arith.subf %a, %mean : f32
    %c = arith.divf %b, %s : f32
    kernel.yield %c : f32
  } : tensor<4x8xf32>
  kernel.return %y : tensor<4x8xf32>
}

// Two rows of a table of 100, by numbers that are data, and one of every other element.
kernel.func @gather(%table: tensor<100x8xf32>, %i: tensor<2xi64>, %z: tensor<16xf16>) -> tensor<2x8xf16> attributes {launch = #kernel.launch<grid = <9>>} {
  %y = kernel.map {
    %row = kernel.read %i (d0, d1) -> (d0) : tensor<2xi64> -> i64
    %a = kernel.read %table (d0, d1, d2) -> (d2, d1) values(%row) : tensor<100x8xf32> -> f32
    %b = kernel.read %z (d0, d1) -> (2*d1) : tensor<16xf16> -> f16
    %c = arith.truncf %a : f32 to f16
    %d = arith.mulf %b, %c : f16
    kernel.yield %d : f16
  } : tensor<2x8xf16>
  kernel.return %y : tensor<2x8xf16>
}

// CHECK-LABEL: llvm.func internal @kiln_graph_0
// CHECK: %[[STEP:.*]] = llvm.mlir.constant(0 : i64)
// CHECK: llvm.call @kiln_rt_launch({{.*}}, %[[STEP]])
wrapper.func private @nested(%x: !wrapper.buffer<[4, 8], [8, 1], f32>, %s: !wrapper.buffer<[4], [1], f32>)
    -> !wrapper.buffer<[4, 8], [8, 1], f32> attributes {arena_bytes = #sym.expr<0>} {
  %y = wrapper.output 0 : !wrapper.buffer<[4, 8], [8, 1], f32>
  wrapper.launch @rows ins(%x, %s : !wrapper.buffer<[4, 8], [8, 1], f32>, !wrapper.buffer<[4], [1], f32>)
      outs(%y : !wrapper.buffer<[4, 8], [8, 1], f32>) loc("nested.py":7:0)
}

// CHECK-LABEL: llvm.func internal @kiln_main
// CHECK: llvm.call @kiln_graph_0
// CHECK: %[[ROWS:.*]] = llvm.mlir.constant(1 : i64)
// CHECK: llvm.call @kiln_rt_launch({{.*}}, %[[ROWS]])
// CHECK: %[[GATHER:.*]] = llvm.mlir.constant(2 : i64)
// CHECK: llvm.call @kiln_rt_launch({{.*}}, %[[GATHER]])
wrapper.program @main(%x: !wrapper.buffer<[4, 8], [8, 1], f32> {wrapper.name = "x"}, %s: !wrapper.buffer<[4], [1], f32> {wrapper.name = "s"},
                      %t: !wrapper.buffer<[100, 8], [8, 1], f32> {wrapper.name = "t"}, %i: !wrapper.buffer<[2], [1], i64> {wrapper.name = "i"},
                      %z: !wrapper.buffer<[16], [1], f16> {wrapper.name = "z"})
    -> (!wrapper.buffer<[4, 8], [8, 1], f32> {wrapper.name = "y"}, !wrapper.buffer<[4, 8], [8, 1], f32> {wrapper.name = "w"},
        !wrapper.buffer<[2, 8], [8, 1], f16> {wrapper.name = "g"})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4, 8], [8, 1], f32>
  %w = wrapper.output 1 : !wrapper.buffer<[4, 8], [8, 1], f32>
  %g = wrapper.output 2 : !wrapper.buffer<[2, 8], [8, 1], f16>
  wrapper.call @nested ins(%x, %s : !wrapper.buffer<[4, 8], [8, 1], f32>, !wrapper.buffer<[4], [1], f32>)
      outs(%y : !wrapper.buffer<[4, 8], [8, 1], f32>)
  wrapper.launch @rows ins(%y, %s : !wrapper.buffer<[4, 8], [8, 1], f32>, !wrapper.buffer<[4], [1], f32>)
      outs(%w : !wrapper.buffer<[4, 8], [8, 1], f32>)
  wrapper.launch @gather ins(%t, %i, %z : !wrapper.buffer<[100, 8], [8, 1], f32>, !wrapper.buffer<[2], [1], i64>, !wrapper.buffer<[16], [1], f16>)
      outs(%g : !wrapper.buffer<[2, 8], [8, 1], f16>)
}
// The kernel of each step, and where its node's text is.
// CHECK: constant @[[STEPS:.*]](dense<[0, 5, 0, {{[0-9]+}}, 1, {{[0-9]+}}]> : tensor<6xi64>)
// Name, first cost and number of buffers of each kernel.
// CHECK: constant @[[KERNELS:.*]](dense<[0, 0, 3, {{[0-9]+}}, 4, 4]> : tensor<6xi64>)
// Operations (32 + 4 + 2 * 32; 16), then the bytes of each buffer.
// CHECK: constant @[[COSTS:.*]](dense<[100, 128, 16, 128, 16, 64, 16, 16, 32]> : tensor<9xi64>)
// CHECK: constant @[[TEXTS:.*]]("rows\00{{.*}}gather\00
// CHECK-LABEL: constant @kiln_profile()
// CHECK-DAG: llvm.mlir.addressof @[[STEPS]]
// CHECK-DAG: llvm.mlir.addressof @[[KERNELS]]
// CHECK-DAG: llvm.mlir.addressof @[[COSTS]]
// CHECK-DAG: llvm.mlir.addressof @[[TEXTS]]
// CHECK: llvm.mlir.constant(3 : i64)

// -----

// Sizes that a run knows are computed in a function of their own. A product of n rows: 2 * n * 4 * 3, and n additions.
module attributes {sym.symbols = {n = {min = 0, max = 9}}} {
  kernel.func @product(%x: tensor<?x3xf32, #sym.shape<[n, 3]>>, %w: tensor<4x3xf32>, %b: tensor<4xf32>) -> tensor<?x4xf32, #sym.shape<[n, 4]>>
      attributes {launch = #kernel.launch<grid = <1>>} {
    %y = kernel.contract batch [] m [n] n [4] k [3] lhs {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<?x3xf32, #sym.shape<[n, 3]>> -> f32
      kernel.yield %a : f32
    } rhs {
      %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4x3xf32> -> f32
      kernel.yield %a : f32
    } epilogue {
    ^bb0(%sum: f32):
      %a = kernel.read %b (d0, d1, d2) -> (d1) : tensor<4xf32> -> f32
      %s = arith.addf %sum, %a : f32
      kernel.yield %s : f32
    } : tensor<?x4xf32, #sym.shape<[n, 4]>>
    kernel.return %y : tensor<?x4xf32, #sym.shape<[n, 4]>>
  }
  wrapper.program @main(%x: !wrapper.buffer<[n, 3], [3, 1], f32> {wrapper.name = "x"}, %w: !wrapper.buffer<[4, 3], [3, 1], f32> {wrapper.name = "w"},
                        %b: !wrapper.buffer<[4], [1], f32> {wrapper.name = "b"})
      -> (!wrapper.buffer<[n, 4], [4, 1], f32> {wrapper.name = "y"})
      attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64, symbols = {n = {min = 0, max = 9}}} {
    wrapper.bind "n" from %x size 0 as n : !wrapper.buffer<[n, 3], [3, 1], f32>
    %y = wrapper.output 0 : !wrapper.buffer<[n, 4], [4, 1], f32>
    wrapper.launch @product ins(%x, %w, %b : !wrapper.buffer<[n, 3], [3, 1], f32>, !wrapper.buffer<[4, 3], [3, 1], f32>, !wrapper.buffer<[4], [1], f32>)
        outs(%y : !wrapper.buffer<[n, 4], [4, 1], f32>)
  }
}
// CHECK-LABEL: llvm.func internal @kiln_profile_eval(%arg0: !llvm.ptr, %arg1: i64) -> i64
// CHECK: llvm.mlir.constant(28 : i64)
// CHECK: llvm.mlir.constant(12 : i64)
// CHECK: llvm.mlir.constant(16 : i64)
// CHECK: (dense<[-1, -2, 48, 16, -3]> : tensor<5xi64>)
// CHECK-LABEL: constant @kiln_profile()

// -----

// With causal attention, query i of 3 has i + 1 of the 5 keys: 6 pairs, each of 2 * (2 + 4) + 5 operations. Of a call little is known.
kernel.func @attention(%q: tensor<3x2xf32>, %k: tensor<5x2xf32>, %v: tensor<5x4xf32>) -> tensor<3x4xf32> attributes {launch = #kernel.launch<grid = <1>>} {
  %o = kernel.attention batch [] m <3> n <5> d <2> dv <4> scale 1.0 causal q {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d2) : tensor<3x2xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %k (d0, d1, d2, d3) -> (d1, d2) : tensor<5x2xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %v (d0, d1, d2, d3) -> (d1, d3) : tensor<5x4xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<3x4xf32>
  kernel.return %o : tensor<3x4xf32>
}
wrapper.program @main(%q: !wrapper.buffer<[3, 2], [2, 1], f32> {wrapper.name = "q"}, %k: !wrapper.buffer<[5, 2], [2, 1], f32> {wrapper.name = "k"},
                      %v: !wrapper.buffer<[5, 4], [4, 1], f32> {wrapper.name = "v"})
    -> (!wrapper.buffer<[3, 4], [4, 1], f32> {wrapper.name = "o"})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64} {
  %o = wrapper.output 0 : !wrapper.buffer<[3, 4], [4, 1], f32>
  wrapper.launch @attention ins(%q, %k, %v : !wrapper.buffer<[3, 2], [2, 1], f32>, !wrapper.buffer<[5, 2], [2, 1], f32>, !wrapper.buffer<[5, 4], [4, 1], f32>)
      outs(%o : !wrapper.buffer<[3, 4], [4, 1], f32>)
  wrapper.extern_call "torch" "aten._assert_async.default" args = [#sym.arg<0>] ins(%o : !wrapper.buffer<[3, 4], [4, 1], f32>) outs() projection = []
}
// CHECK: (dense<[102, 24, 40, 80, 48, -9223372036854775808, 48]> : tensor<7xi64>)
// CHECK: ("attention\00{{.*}}aten._assert_async.default\00
