// RUN: kiln-opt %s --kernel-outline --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

// A call names all nodes that its kernel computes, the root's first; what is merely read, or an index, is none of them.
// Kernels are shared whatever their nodes are, and though locations are printed.
// CHECK-LABEL: func.func @main
// CHECK: kernel.call @map_0({{.*}} loc(fused["tanh"("model.py":2:0), "exp"("model.py":1:0)])
// CHECK: kernel.call @map_0({{.*}} loc(fused<{kind = "kernel.map", node = "tanh_1", outputs = array<i64: 0>}>["tanh_1"("model.py":4:0), "exp_1"("model.py":3:0)])
// CHECK: kernel.call @map_1({{.*}} loc("copy")
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32 loc("view")
    %p = math.exp %e : f32 loc("exp"("model.py":1:0))
    %t = math.tanh %p : f32 loc("tanh"("model.py":2:0))
    kernel.yield %t : f32
  } : tensor<8xf32> loc("tanh"("model.py":2:0))
  %b = kernel.map {
    %e = kernel.read %a (d0) -> (d0) : tensor<8xf32> -> f32 loc("view_1")
    %p = math.exp %e : f32 loc("exp_1"("model.py":3:0))
    %t = math.tanh %p : f32 loc("tanh_1"("model.py":4:0))
    kernel.yield %t : f32
  } : tensor<8xf32> loc(fused<{kind = "kernel.map", node = "tanh_1", outputs = array<i64: 0>}>["tanh_1"("model.py":4:0)])
  %c = kernel.map {
    %e = kernel.read %b (d0) -> (7 - d0) : tensor<8xf32> -> f32 loc("flip")
    kernel.yield %e : f32
  } : tensor<8xf32> loc("copy")
  return %c : tensor<8xf32>
}
