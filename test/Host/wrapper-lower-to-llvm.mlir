// RUN: kiln-opt %s --wrapper-lower-to-llvm="name=tiny compiler=kiln" --split-input-file | FileCheck %s
// RUN: kiln-opt %s --wrapper-lower-to-llvm="external-weights weights-hash=77" --split-input-file | FileCheck %s --check-prefix=EXTERNAL
// RUN: kiln-opt %s --wrapper-lower-to-llvm="cpu=haswell cpu-features=255" --split-input-file | FileCheck %s --check-prefix=CPU

kernel.func @k(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> attributes {launch = #kernel.launch<grid = <3>, scratch = 128>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    %b = kernel.read %w (d0) -> (d0) : tensor<4xf32> -> f32
    %c = arith.addf %a, %b : f32
    kernel.yield %c : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}

// CHECK-DAG: llvm.func hidden @kiln_rt_launch(!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64) -> i32
// CHECK-DAG: llvm.func hidden @k(!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, !llvm.ptr)
// CHECK-NOT: kernel.func
// CHECK-NOT: wrapper.program
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"})
    -> (!wrapper.buffer<[2, 2], [1, 2], f32> {wrapper.name = "y"}, none {wrapper.name = "n"})
    attributes {arena_bytes = #sym.expr<192>, weights_bytes = 128 : i64} {
  // CHECK-LABEL: llvm.func internal @kiln_main(%arg0: !llvm.ptr) -> i32
  // CHECK: %[[INPUTS:.*]] = llvm.load %arg0 : !llvm.ptr -> !llvm.ptr
  // CHECK: %[[X:.*]] = llvm.load %[[INPUTS]] : !llvm.ptr -> !llvm.ptr
  %w = wrapper.constant "fc.w" at 64 dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // CHECK: llvm.mlir.constant(64 : i64)
  %a = wrapper.alloc at 128 : !wrapper.buffer<[4], [1], f32>
  // CHECK: llvm.mlir.constant(128 : i64)
  // CHECK: llvm.store %[[X]], %[[ARGS:.*]] :
  // CHECK: %[[K:.*]] = llvm.mlir.addressof @k
  // CHECK: %[[GRID:.*]] = llvm.mlir.constant(3 : i64)
  // CHECK: %[[STEP:.*]] = llvm.mlir.constant(0 : i64)
  // CHECK: %[[STATUS:.*]] = llvm.call @kiln_rt_launch(%arg0, %[[K]], %{{.*}}, %[[GRID]], %[[STEP]])
  // CHECK: llvm.cond_br %{{.*}}, ^[[ERROR:bb[0-9]+]](%[[STATUS]] : i32), ^
  wrapper.launch @k ins(%x, %w : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[4], [1], f32>)
      outs(%a : !wrapper.buffer<[4], [1], f32>)
  %v = wrapper.view %a offset 0 : !wrapper.buffer<[4], [1], f32> -> !wrapper.buffer<[2, 2], [2, 1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[2, 2], [1, 2], f32>
  // Sizes, target strides, source strides.
  // CHECK: llvm.call @kiln_rt_copy(
  wrapper.copy %v to %y : !wrapper.buffer<[2, 2], [2, 1], f32> to !wrapper.buffer<[2, 2], [1, 2], f32>
  // A second launch of the same kernel.
  // CHECK: %[[NEXT:.*]] = llvm.mlir.constant(1 : i64)
  // CHECK: llvm.call @kiln_rt_launch({{.*}}, %[[NEXT]])
  wrapper.launch @k ins(%a, %w : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[4], [1], f32>)
      outs(%a : !wrapper.buffer<[4], [1], f32>)
  wrapper.comment "nothing"
  wrapper.free %a : !wrapper.buffer<[4], [1], f32>
  // CHECK: ^[[ERROR]](%[[RESULT:.*]]: i32):
  // CHECK-NEXT: llvm.return %[[RESULT]]
}
// CHECK-LABEL: llvm.func internal @kiln_sizes
// CHECK: llvm.mlir.constant(192 : i64)
// CHECK: {\22name\22:\22tiny\22,\22target\22:\22cpu\22,\22abi\22:2,\22compiler\22:\22kiln\22
// CHECK-LABEL: llvm.mlir.global external hidden constant @kiln_program()
// EXTERNAL-LABEL: llvm.mlir.global external hidden constant @kiln_program()
// EXTERNAL: llvm.mlir.constant(77 : i64)
// CPU: llvm.mlir.global external hidden constant @kiln_program()
// CPU: llvm.mlir.constant(255 : i64)
// CPU: llvm.mlir.addressof @[[NAME:[^ ]+]]
// CPU: llvm.mlir.global private unnamed_addr constant @[[NAME]]("haswell\00")

// -----

// Symbols: s0 is read, s1 solved from 2*s1 + s0, sizes are numbered expressions.
module attributes {sym.symbols = {s0 = {min = 1, max = 9}, s1 = {min = 1}, s2 = {}}} {
  kernel.func @k(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0 * s1]>>
      attributes {launch = #kernel.launch<grid = <s0 ceildiv 4>>} {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (d0 floordiv s1) : tensor<?xf32, #sym.shape<[s0]>> -> f32
      kernel.yield %a : f32
    } : tensor<?xf32, #sym.shape<[s0 * s1]>>
    kernel.return %y : tensor<?xf32, #sym.shape<[s0 * s1]>>
  }
  wrapper.program @main(%z: !wrapper.buffer<[2*s1 + s0], [1], f32> {wrapper.name = "z", wrapper.mutated},
                        %x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"})
      -> (!wrapper.buffer<[s0*s1], [1], f32> {wrapper.name = "y"})
      attributes {arena_bytes = #sym.expr<4*s0*s1>, weights_bytes = 0 : i64,
                  symbols = {s0 = {min = 1, max = 9}, s1 = {min = 1}, s2 = {}}} {
    wrapper.bind "s0" from %x size 0 as s0 : !wrapper.buffer<[s0], [1], f32>
    wrapper.bind "s1" from %z size 0 as 2*s1 + s0 : !wrapper.buffer<[2*s1 + s0], [1], f32>
    wrapper.assert s1 - 2, "s1 must be at least 2"
    %y = wrapper.output 0 : !wrapper.buffer<[s0*s1], [1], f32>
    wrapper.launch @k ins(%x : !wrapper.buffer<[s0], [1], f32>) outs(%y : !wrapper.buffer<[s0*s1], [1], f32>)
  }
}
// CHECK-LABEL: llvm.func internal @kiln_main
// CHECK: llvm.call @kiln_rt_assert_failed(%arg0, %{{.*}}, %{{.*}}, %{{.*}}) : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64) -> i32
// CHECK: llvm.sdiv
// CHECK: llvm.call @kiln_rt_launch
// CHECK-LABEL: llvm.func internal @kiln_bind(%arg0: !llvm.ptr, %arg1: !llvm.ptr) -> i32
// CHECK: llvm.getelementptr %arg0[1]
// CHECK: %[[S0:.*]] = llvm.load
// CHECK: %[[S0V:.*]] = llvm.load
// CHECK: llvm.sub %{{.*}}, %[[S0V]]
// CHECK: llvm.sdiv
// An input that does not fit is named: number 0, plus 1.
// CHECK: llvm.mlir.constant(1 : i32)
// CHECK: llvm.cond_br
// CHECK-LABEL: llvm.func internal @kiln_sizes
// CHECK: llvm.intr.smul.with.overflow
// CHECK-LABEL: llvm.func internal @kiln_eval(%arg0: !llvm.ptr, %arg1: i64) -> i64
// CHECK: llvm.switch %arg1

// -----

// Folds: what the runtime is to compute again. Constants: the named ones, then what folds read and make.
// A weight that is nowhere (flag 2), the kept operand, then three that folds make.
// CHECK-LABEL: llvm.func hidden @pack
// CHECK: llvm.mlir.global private unnamed_addr constant @[[SECOND:kiln_numbers_[0-9]+]](dense<[2, 1, 3]>
// CHECK: llvm.mlir.global private unnamed_addr constant @kiln_folds()
// CHECK: llvm.mlir.addressof @pack
// CHECK: llvm.mlir.constant(5 : i64)
// CHECK: llvm.mlir.addressof @scale
// CHECK: llvm.mlir.addressof @[[SECOND]]
// CHECK: @kiln_constants()
module attributes {torch.constants = [{name = "w", type = tensor<4xf32>}, {name = "s", type = tensor<f32>}]} {
  kernel.func @pack(%x: tensor<4xf32>) -> tensor<4xf32> attributes {launch = #kernel.launch<grid = <5>>} {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (3 - d0) : tensor<4xf32> -> f32
      kernel.yield %a : f32
    } : tensor<4xf32>
    kernel.return %y : tensor<4xf32>
  }
  kernel.func @scale(%x: tensor<4xf32>, %s: tensor<f32>) -> tensor<4xf32> attributes {launch = #kernel.launch<grid = <1>>} {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
      %b = kernel.read %s (d0) -> () : tensor<f32> -> f32
      %c = arith.mulf %a, %b : f32
      kernel.yield %c : f32
    } : tensor<4xf32>
    kernel.return %y : tensor<4xf32>
  }
  wrapper.program @main() -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
      attributes {arena_bytes = #sym.expr<0>, weights_bytes = 256 : i64} {
    %p = wrapper.constant at 128 dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    %w = wrapper.constant "w" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    %s = wrapper.constant "s" at 0 dense<1.0> : tensor<f32> to !wrapper.buffer<[], [], f32>
    %q = wrapper.constant at 192 dense<3.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
    wrapper.copy %q to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
    wrapper.fold @pack ins(%w : !wrapper.buffer<[4], [1], f32>) outs(%p : !wrapper.buffer<[4], [1], f32>)
    wrapper.fold @scale ins(%p, %s : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[], [], f32>)
        outs(%q : !wrapper.buffer<[4], [1], f32>)
  }
}

// -----

// Sizes that data gives: the number is stored where later sizes are loaded from, memory is reserved,
// and the output is bound.
module attributes {sym.symbols = {s0 = {min = 1}, u0 = {min = 0, max = 9}}} {
  wrapper.program @main(%n: !wrapper.buffer<[], [], i64> {wrapper.name = "n"},
                        %ok: !wrapper.buffer<[], [], i1> {wrapper.name = "ok"},
                        %x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"})
      -> (!wrapper.buffer<[u0], [1], f32> {wrapper.name = "y"})
      attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64,
                  symbols = {s0 = {min = 1}, u0 = {min = 0, max = 9}}} {
    wrapper.define "u0" from %n : !wrapper.buffer<[], [], i64>
    wrapper.assert s0 - u0, "as many as there are"
    wrapper.check %ok, "not so" : !wrapper.buffer<[], [], i1>
    wrapper.reserve 1, 64*u0
    %a = wrapper.alloc at 0 in 1 : !wrapper.buffer<[u0], [1], f32>
    %y = wrapper.output 0 : !wrapper.buffer<[u0], [1], f32>
    wrapper.copy %a to %y : !wrapper.buffer<[u0], [1], f32> to !wrapper.buffer<[u0], [1], f32>
  }
}
// CHECK-LABEL: llvm.mlir.global private unnamed_addr constant @{{.*}}("not so\00")
// CHECK: llvm.mlir.global private unnamed_addr constant @{{.*}}("as many as there are\00")
// CHECK: llvm.mlir.global private unnamed_addr constant @{{.*}}(dense<[0, 1]> : tensor<2xi64>)
// CHECK-LABEL: llvm.func internal @kiln_main
// CHECK: llvm.store %{{.*}}, %{{.*}} : i64, !llvm.ptr
// CHECK: llvm.call @kiln_rt_assert_failed(
// CHECK: llvm.load %{{.*}} : !llvm.ptr -> i8
// CHECK: llvm.call @kiln_rt_assert_failed(
// CHECK: llvm.call @kiln_rt_reserve(%arg0
// CHECK: llvm.call @kiln_rt_bind_output(%arg0
// CHECK: "llvm.intr.memcpy"
// The range of what the program defines is not the runtime's to check at entry.
// CHECK-LABEL: llvm.mlir.global private unnamed_addr constant @kiln_symbols
// CHECK: llvm.mlir.constant(9223372036854775807 : i64)
// CHECK: llvm.mlir.constant(-9223372036854775808 : i64)
// CHECK: llvm.mlir.constant(9223372036854775807 : i64)

// -----

// Calls of libraries are data; sizes and strides come first among a call's numbers, then what its arguments compute.
// CHECK-LABEL: module attributes {sym.symbols = {s0 = {max = 9 : i64, min = 1 : i64}}}
module attributes {sym.symbols = {s0 = {min = 1, max = 9}}} {
  // CHECK-DAG: @[[NUMBERS:.*]](dense<[4, 1]> : tensor<2xi64>)
  // CHECK-DAG: ("a name\00")
  // CHECK-LABEL: llvm.func internal @kiln_main
  wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}, %z: !wrapper.buffer<[s0], [1], f64> {wrapper.name = "z"})
      -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
      attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64, symbols = {s0 = {min = 1, max = 9}}} {
    // CHECK: %[[TABLE:.*]] = llvm.alloca %{{.*}} x i64
    %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
    // CHECK: llvm.getelementptr %[[TABLE]][0]
    // CHECK: llvm.call @kiln_rt_begin_step(%arg0)
    // CHECK: llvm.cond_br
    // CHECK: %[[FIRST:.*]] = llvm.mlir.constant(0 : i32)
    // CHECK: %[[STATUS:.*]] = llvm.call @kiln_rt_extern(%arg0, %[[FIRST]], %{{.*}}, %[[TABLE]])
    // CHECK: llvm.cond_br %{{.*}}, ^{{.*}}(%[[STATUS]] : i32), ^
    // CHECK: %[[STEP:.*]] = llvm.mlir.constant(0 : i64)
    // CHECK: llvm.call @kiln_rt_end_step(%arg0, %[[STEP]], %{{.*}})
    wrapper.extern_call "torch" "lib.op_.default" args = [#sym.arg<0>, #sym.arg<1>, #sym.expr<2*s0>, "a name", #sym.dtype<bf16>, 2.5, #sym.complex<1.0, 2.0>]
        names = ["", "", "", "name", "", "", ""]
        ins(%x, %z : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[s0], [1], f64>) outs(%y : !wrapper.buffer<[4], [1], f32>) projection = [] updates = [0]
    // CHECK: %[[CONSTANT:.*]] = llvm.mlir.addressof @[[NUMBERS]]
    // CHECK: llvm.call @kiln_rt_extern(%arg0, %{{.*}}, %{{.*}}, %[[CONSTANT]])
    wrapper.extern_call "torch" "aten._assert_async.default" args = [#sym.arg<0>] ins(%x : !wrapper.buffer<[4], [1], f32>) outs() projection = []
  }
  // CHECK: @[[CALLEE:.*]]("lib.op_.default\00")
  // CHECK: ("torch\00")
  // CHECK-LABEL: llvm.mlir.global private unnamed_addr constant @kiln_extern_calls
  // CHECK: llvm.mlir.addressof @[[CALLEE]]
  // CHECK-LABEL: llvm.mlir.global private unnamed_addr constant @kiln_externs
  // CHECK: llvm.mlir.addressof @kiln_rt_open_externs
  // CHECK-LABEL: llvm.mlir.global external hidden constant @kiln_program()
}

// -----

// A C function, whose name nothing here can have. It needs no library.
// CHECK-LABEL: llvm.func hidden @kiln_rt_custom
// CHECK: llvm.func @"\01k"(!llvm.ptr, i64, !llvm.ptr, i64, !llvm.ptr) -> i32
// CHECK-LABEL: llvm.func internal @kiln_main
// CHECK: %[[CALL:.*]] = llvm.mlir.addressof @kiln_extern_call_custom_0
// CHECK: %[[FUNCTION:.*]] = llvm.mlir.addressof @"\01k"
// CHECK: llvm.call @kiln_rt_custom(%arg0, %[[CALL]], %[[FUNCTION]], %{{.*}}, %{{.*}})
// CHECK-NOT: @kiln_externs
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  wrapper.extern_call "c" "k" args = [#sym.arg<0>, 2.5] ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>) projection = [0]
}

// -----

// A function of the runtime's own is called in the same way.
// CHECK-LABEL: llvm.func hidden @kiln_rt_custom
// CHECK: llvm.call @kiln_rt_custom(
// CHECK-NOT: @kiln_externs
wrapper.program @main(%x: !wrapper.buffer<[1, 2, 2], [4, 2, 1], f64> {wrapper.name = "x"})
    -> (!wrapper.buffer<[1, 2, 2], [4, 2, 1], f64> {wrapper.name = "y"}, !wrapper.buffer<[1, 2], [2, 1], f64> {wrapper.name = "z"})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[1, 2, 2], [4, 2, 1], f64>
  %z = wrapper.output 1 : !wrapper.buffer<[1, 2], [2, 1], f64>
  wrapper.extern_call "kiln" "kiln_linalg_geqrf_f64" args = [#sym.arg<0>] ins(%x : !wrapper.buffer<[1, 2, 2], [4, 2, 1], f64>)
      outs(%y, %z : !wrapper.buffer<[1, 2, 2], [4, 2, 1], f64>, !wrapper.buffer<[1, 2], [2, 1], f64>) projection = [0, 1]
}

// -----

// A kernel of s0, of which 7*s0*s0 is computed once a run, is launched with s1: it gets a table with s1 as s0 and 7*s1*s1
// for what follows from it. The run has its own table again before the status is looked at.
module attributes {sym.symbols = {s0 = {min = 1}, s1 = {min = 1}, size.0 = {size = #sym.expr<7*s0*s0>}, size.1 = {size = #sym.expr<7*s1*s1>}}} {
  kernel.func @squares(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[7*s0*s0]>>
      attributes {launch = #kernel.launch<grid = <7*s0*s0>>} {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (d0 floordiv (7*s0)) : tensor<?xf32, #sym.shape<[s0]>> -> f32
      kernel.yield %a : f32
    } : tensor<?xf32, #sym.shape<[7*s0*s0]>>
    kernel.return %y : tensor<?xf32, #sym.shape<[7*s0*s0]>>
  }
  wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"}, %z: !wrapper.buffer<[s1], [1], f32> {wrapper.name = "z"})
      -> (!wrapper.buffer<[7*s1*s1], [1], f32> {wrapper.name = "y"})
      attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64,
                  symbols = {s0 = {min = 1}, s1 = {min = 1}, size.0 = {size = #sym.expr<7*s0*s0>}, size.1 = {size = #sym.expr<7*s1*s1>}}} {
    wrapper.bind "s0" from %x size 0 as s0 : !wrapper.buffer<[s0], [1], f32>
    wrapper.bind "s1" from %z size 0 as s1 : !wrapper.buffer<[s1], [1], f32>
    wrapper.define "size.0" = 7*s0*s0
    wrapper.define "size.1" = 7*s1*s1
    %y = wrapper.output 0 : !wrapper.buffer<[7*s1*s1], [1], f32>
    wrapper.launch @squares ins(%z : !wrapper.buffer<[s1], [1], f32>) outs(%y : !wrapper.buffer<[7*s1*s1], [1], f32>) {symbols = {s0 = #sym.expr<s1>}}
  }
}
// CHECK-LABEL: llvm.func hidden @squares
// CHECK: llvm.func internal @kiln_main
// CHECK: %[[COUNT:.*]] = llvm.mlir.constant(4 : i64)
// CHECK: %[[TABLE:.*]] = llvm.alloca %[[COUNT]] x i64
// CHECK: %[[FIELD:.*]] = llvm.getelementptr %arg0[4]
// CHECK: %[[OWN:.*]] = llvm.load %[[FIELD]] : !llvm.ptr -> !llvm.ptr
// CHECK: %[[AT1:.*]] = llvm.getelementptr %[[OWN]][1]
// CHECK: %[[S1:.*]] = llvm.load %[[AT1]]
// CHECK: %[[S0:.*]] = llvm.getelementptr %[[TABLE]][0]
// CHECK: llvm.store %[[S1]], %[[S0]]
// CHECK: %[[SIZE0:.*]] = llvm.getelementptr %[[TABLE]][2]
// CHECK: llvm.store %{{.*}}, %[[SIZE0]]
// CHECK: %[[PLACE:.*]] = llvm.getelementptr %arg0[4]
// CHECK: llvm.store %[[TABLE]], %[[PLACE]]
// CHECK: %[[STATUS:.*]] = llvm.call @kiln_rt_launch
// CHECK: llvm.store %{{.*}}, %{{.*}} : !llvm.ptr, !llvm.ptr
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%[[STATUS]]

// -----

// Buffers that the program writes to are the session's, at the offsets of the weights.
wrapper.program @main() attributes {arena_bytes = #sym.expr<0>, weights_bytes = 128 : i64} {
  %state = wrapper.constant at 0 mutated dense<1.0> : tensor<2xf32> to !wrapper.buffer<[2], [1], f32>
  %weight = wrapper.constant "w" at 64 dense<2.0> : tensor<2xf32> to !wrapper.buffer<[2], [1], f32>
  wrapper.copy %weight to %state : !wrapper.buffer<[2], [1], f32> to !wrapper.buffer<[2], [1], f32>
}
// CHECK: llvm.func internal @kiln_main
// CHECK: %[[PLACE:.*]] = llvm.getelementptr %arg0[3]
// CHECK: %[[WEIGHTS:.*]] = llvm.load %[[PLACE]]
// CHECK: %[[PLACE:.*]] = llvm.getelementptr %arg0[7]
// CHECK: %[[STATE:.*]] = llvm.load %[[PLACE]]
// CHECK: %[[W:.*]] = llvm.getelementptr %[[WEIGHTS]][%{{.*}}]
// CHECK: "llvm.intr.memcpy"(%[[STATE]], %[[W]]
