// RUN: kiln-opt %s --torch-lower-to-kernel --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// RUN: kiln-opt %s --torch-lower-to-kernel --kernel-fuse-epilogues --kernel-outline --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=FUSED

// The op that gives a call's result says so in its location; others of the same node do not.
// CHECK-LABEL: func.func @main
// CHECK: kernel.contract
// CHECK: loc(fused<{kind = "kernel.contract", node = "linear", outputs = array<i64: 0>}>["linear"("m.py":3:0)])
// CHECK: kernel.map
// CHECK: loc(fused<{kind = "kernel.map", node = "relu", outputs = array<i64: 0>}>["relu"("m.py":4:0)])
// Both outputs, and what a view reads for one of them; not the keys.
// CHECK: kernel.sort
// CHECK: loc(fused<{kind = "kernel.sort", node = "sort", outputs = array<i64: 1, -1, -1>}>["sort"("m.py":5:0)])
// CHECK: node = "sort", outputs = array<i64: 1>
// CHECK: node = "sort", outputs = array<i64: 0>
// A pass has made two calls of one node: neither is known to have its value.
// CHECK: math.sin
// CHECK-NOT: node = "cell"
// CHECK: return

// The fused kernel's result is what its epilogue computes.
// FUSED: kernel.call @contract_0
// FUSED-SAME: loc(fused<{kind = "kernel.contract", node = "relu", outputs = array<i64: 0>}>["linear"("m.py":3:0), "relu"("m.py":4:0)])
func.func @main(%x: tensor<4x8xf32> {torch.name = "x"}, %w: tensor<16x8xf32> {torch.name = "w"})
    -> (tensor<4x16xf32> {torch.name = "y"}, tensor<4x16xf32> {torch.name = "v"}, tensor<4x16xi64> {torch.name = "i"}, tensor<4x8xf32> {torch.name = "z"}) {
  %c = torch.call "aten.linear.default"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>, unit] {node = "linear"}
      : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32> loc("linear"("m.py":3:0))
  %y = torch.call "aten.relu.default"(%c) args = [#sym.arg<0>] {node = "relu"} : (tensor<4x16xf32>) -> tensor<4x16xf32> loc("relu"("m.py":4:0))
  %v, %i = torch.call "aten.sort.default"(%y) args = [#sym.arg<0>, -1, false] {node = "sort"}
      : (tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xi64>) loc("sort"("m.py":5:0))
  %s = torch.call "aten.sin.default"(%x) args = [#sym.arg<0>] {node = "cell"} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("cell"("m.py":6:0))
  %z = torch.call "aten.sin.default"(%s) args = [#sym.arg<0>] {node = "cell"} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("cell"("m.py":6:0))
  return %y, %v, %i, %z : tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xi64>, tensor<4x8xf32>
}
