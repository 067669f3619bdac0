// Says of each map into which kernel it went, or why it stayed apart; nothing unless it is asked.
// RUN: kiln-opt %s --kernel-fuse-maps --remarks-filter=kernel-fuse-maps --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s
// RUN: kiln-opt %s --kernel-fuse-maps --remarks-filter=kernel-fuse-maps --remark-format=yaml --remarks-output-file=%t.yaml --mlir-disable-threading -o /dev/null
// RUN: FileCheck %s --check-prefix=YAML < %t.yaml
// RUN: kiln-opt %s --kernel-fuse-maps -o /dev/null 2>&1 | FileCheck %s --check-prefix=QUIET --allow-empty
// RUN: kiln-opt %s --kernel-fuse-maps=operands=false --remarks-filter=kernel-fuse-maps --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s --check-prefix=FIRST
// QUIET-NOT: {{.}}

// CHECK: [Passed] Fused
// CHECK-SAME: Remark="fused into node 'exp' (model.py:4)", Where="node 'tanh' (model.py:3)"
// YAML: --- !Passed
// YAML-NEXT: Pass: kernel-fuse-maps
// YAML-NEXT: Name: Fused
// YAML: Function: chain
// YAML: Where: {{.*}}tanh
// FIRST: fused into node 'exp' (model.py:4)
func.func @chain(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %a = kernel.map {
    %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<8x4xf32> loc("tanh"("model.py":3:0))
  %b = kernel.map {
    %e = kernel.read %a (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    %t = math.exp %e : f32
    kernel.yield %t : f32
  } : tensor<8x4xf32> loc("exp"("model.py":4:0))
  return %b : tensor<8x4xf32>
}

// The passes that come after the first run may still change this: it says nothing.
// CHECK: [Missed] NotFused
// CHECK-SAME: Reason="its elements would be computed more than once", Remark="not fused into node 'add' (model.py:6)", Where="node 'exp_1' (model.py:5)"
// YAML: --- !Missed
// YAML: Reason: {{.*}}computed more than once
// FIRST-NOT: not fused
func.func @broadcast(%x: tensor<4xf32>) -> tensor<8x4xf32> {
  %a = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
    %t = math.exp %e : f32
    kernel.yield %t : f32
  } : tensor<4xf32> loc("exp_1"("model.py":5:0))
  %c = kernel.map {
    %e = kernel.read %a (d0, d1) -> (d1) : tensor<4xf32> -> f32
    %t = arith.addf %e, %e : f32
    kernel.yield %t : f32
  } : tensor<8x4xf32> loc("add"("model.py":6:0))
  return %c : tensor<8x4xf32>
}

// CHECK: Reason="others read it as well{{.*}}, Remark="not fused into node 'add_1' (model.py:8)", Where="node 'exp_2' (model.py:7)"
// CHECK: Reason="others read it as well{{.*}}, Remark="not fused into node 'mul' (model.py:9)", Where="node 'exp_2' (model.py:7)"
func.func @twice(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    %t = math.exp %e : f32
    kernel.yield %t : f32
  } : tensor<8xf32> loc("exp_2"("model.py":7:0))
  %b = kernel.map {
    %e = kernel.read %a (d0) -> (d0) : tensor<8xf32> -> f32
    %t = arith.addf %e, %e : f32
    kernel.yield %t : f32
  } : tensor<8xf32> loc("add_1"("model.py":8:0))
  %c = kernel.map {
    %e = kernel.read %a (d0) -> (d0) : tensor<8xf32> -> f32
    %t = arith.mulf %e, %e : f32
    kernel.yield %t : f32
  } : tensor<8xf32> loc("mul"("model.py":9:0))
  return %b, %c : tensor<8xf32>, tensor<8xf32>
}

// Four bytes that make a word are read at four places.
// CHECK: Reason="it reduces, and would be computed at each of several places where it is read", Remark="not fused into node 'pack' (model.py:11)", Where="node 'sum' (model.py:10)"
func.func @several_places(%x: tensor<64x8x9xf32>) -> tensor<64x4xf32> {
  %zero = arith.constant 0.0 : f32
  %a = kernel.map {
    %s = kernel.reduce [9] init(%zero : f32) {
      %e = kernel.read %x (d0, d1, d2) -> (d0, d1, d2) : tensor<64x8x9xf32> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%l: f32, %r: f32):
      %t = arith.addf %l, %r : f32
      kernel.yield %t : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<64x8xf32> loc("sum"("model.py":10:0))
  %b = kernel.map {
    %e = kernel.read %a (d0, d1) -> (d0, 2*d1) : tensor<64x8xf32> -> f32
    %f = kernel.read %a (d0, d1) -> (d0, 2*d1 + 1) : tensor<64x8xf32> -> f32
    %t = arith.addf %e, %f : f32
    kernel.yield %t : f32
  } : tensor<64x4xf32> loc("pack"("model.py":11:0))
  return %b : tensor<64x4xf32>
}
