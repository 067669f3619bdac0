// RUN: kiln-opt %s --wrapper-comment-steps --split-input-file | FileCheck %s

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}
wrapper.func private @f() {
  // CHECK: wrapper.func private @f()
  // CHECK-NEXT: wrapper.comment "node a0 (model.py:3)"
  // CHECK-NEXT: wrapper.extern_call
  wrapper.extern_call "torch" "aten._print.default" args = [] ins() outs() projection = [] loc("a0"("model.py":3:1))
}
// CHECK: wrapper.program @main
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"}) {
  // CHECK-NEXT: wrapper.output
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32> loc("y"("model.py":7:1))
  // A fused kernel computes several nodes.
  // CHECK-NEXT: wrapper.comment "nodes mul, add (model.py:4)"
  // CHECK-NEXT: wrapper.launch
  wrapper.launch @k ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>)
      loc(fused["mul"("model.py":4:1), "add"("model.py":5:1), "mul"("model.py":4:1)])
  // CHECK-NEXT: wrapper.comment "nodes n0, n1, n2, n3, n4, n5, n6, n7 and 2 more"
  // CHECK-NEXT: wrapper.launch
  wrapper.launch @k ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>)
      loc(fused["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"])
  // CHECK-NEXT: wrapper.comment "node call"
  // CHECK-NEXT: wrapper.call @f
  wrapper.call @f ins() outs() loc("call")
  // There is nothing to say about this one.
  // CHECK-NEXT: wrapper.launch
  wrapper.launch @k ins(%x : !wrapper.buffer<[4], [1], f32>) outs(%y : !wrapper.buffer<[4], [1], f32>) loc(unknown)
}
