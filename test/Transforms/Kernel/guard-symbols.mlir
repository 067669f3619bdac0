// RUN: kiln-opt %s --kernel-guard-symbols --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --kernel-guard-symbols --run-reference --split-input-file -o /dev/null

// Assertions follow the last definition that they need, each is made once, and bounds that none of
// them states come after.
module attributes {sym.symbols = {s0 = {min = 2}, u0 = {min = 1, max = 9}, u1 = {min = 0}, u2 = {}}} {
  // CHECK-LABEL: func.func @main
  func.func @main(%a: tensor<i64>, %b: tensor<i64>) -> tensor<i64> {
    // CHECK: kernel.define "u0"
    // CHECK-NEXT: kernel.assert u0 - 1, "u0 is positive"
    // CHECK-NEXT: kernel.assert 9 - u0, "expected u0 to be at most 9 (node 'item' (model.py:7))"
    kernel.define "u0" from %a : tensor<i64> loc(#item)
    // CHECK-NEXT: kernel.define "u1"
    // CHECK-NEXT: kernel.assert s0 - u0 - u1, "fits"
    // CHECK-NEXT: kernel.assert u1, "expected u1 to be at least 0 ({{.*}})"
    kernel.define "u1" from %b : tensor<i64>
    // CHECK-NEXT: kernel.define "u2" = u0 + u1
    kernel.define "u2" = u0 + u1
    // CHECK-NEXT: kernel.map
    %c = kernel.map {
      %i = kernel.index () -> (u2)
      kernel.yield %i : i64
    } : tensor<i64>
    // CHECK-NOT: u0
    kernel.assert u0 - 1, "u0 is positive"
    kernel.assert s0 - u0 - u1, "fits"
    kernel.assert u0 - 1, "once more"
    // CHECK: kernel.assert s0 - 3, "of the inputs alone"
    kernel.assert s0 - 3, "of the inputs alone"
    return %c : tensor<i64>
  }
}
#line = loc("model.py":7:0)
#item = loc("item"(#line))

// -----

// What the inputs alone decide is asserted first of all, except in a graph, which need not be run.
module attributes {sym.symbols = {s0 = {min = 0}, s1 = {min = 0}}} {
  // CHECK-LABEL: func.func @main
  // CHECK-NEXT: kernel.assert s0 - 1, "of a size"
  // CHECK-NEXT: kernel.assert s0 + s1 - 2, "of two inputs"
  // CHECK-NEXT: kernel.map
  // CHECK: kernel.assert u0 - s0, "of data"
  func.func @main(%x: tensor<?xf32, #sym.shape<[s0]>>, %n: tensor<i64> {torch.value = #sym.expr<s1>}) -> tensor<i64> {
    %c = kernel.map {
      %i = kernel.index () -> (s0)
      kernel.yield %i : i64
    } : tensor<i64>
    kernel.define "u0" from %c : tensor<i64>
    kernel.assert s0 - 1, "of a size"
    kernel.assert u0 - s0, "of data"
    kernel.assert s0 + s1 - 2, "of two inputs"
    return %c : tensor<i64>
  }
  // CHECK-LABEL: func.func private @branch
  // CHECK: kernel.map
  // CHECK: kernel.assert s0 - 4, "of a branch"
  func.func private @branch(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<i64> {
    %c = kernel.map {
      %i = kernel.index () -> (s0)
      kernel.yield %i : i64
    } : tensor<i64>
    kernel.assert s0 - 4, "of a branch"
    return %c : tensor<i64>
  }
}

// -----

// A program that begins with an assertion, twice.
module attributes {sym.symbols = {s0 = {min = 0}}} {
  // CHECK-LABEL: func.func @begins_with_assertions
  // CHECK-NEXT: kernel.assert s0 - 1, "first"
  // CHECK-NEXT: kernel.assert s0 - 2, "of the end"
  // CHECK-NEXT: kernel.map
  func.func @begins_with_assertions(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<i64> {
    kernel.assert s0 - 1, "first"
    kernel.assert s0 - 1, "again"
    %c = kernel.map {
      %i = kernel.index () -> (s0)
      kernel.yield %i : i64
    } : tensor<i64>
    kernel.assert s0 - 2, "of the end"
    // CHECK-NOT: kernel.assert
    return %c : tensor<i64>
  }
}

// -----

// A symbol that the size of a call's result is named by has no value before the call.
module attributes {sym.symbols = {u0 = {min = 0}, u1 = {min = 0}}} {
  // CHECK-LABEL: func.func @result_of_a_graph
  // CHECK: kernel.define "u0"
  // CHECK-NEXT: kernel.assert u0, {{.*}}
  // CHECK-NEXT: kernel.cond
  // CHECK-NEXT: kernel.assert u0 - u1, "of both"
  func.func @result_of_a_graph(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<9xf32>) -> tensor<?xf32, #sym.shape<[u1]>> {
    kernel.define "u0" from %n : tensor<i64>
    %0 = kernel.cond %c : tensor<i1> then @graph else @graph(%x) : (tensor<9xf32>) -> tensor<?xf32, #sym.shape<[u1]>>
    kernel.assert u0 - u1, "of both"
    return %0 : tensor<?xf32, #sym.shape<[u1]>>
  }
  func.func private @graph(%x: tensor<9xf32>) -> tensor<?xf32, #sym.shape<[u1]>> {
    kernel.define "u1" = 9
    %0 = kernel.map {
      %a = kernel.read %x (d0) -> (d0) : tensor<9xf32> -> f32
      kernel.yield %a : f32
    } : tensor<?xf32, #sym.shape<[u1]>>
    return %0 : tensor<?xf32, #sym.shape<[u1]>>
  }
}
