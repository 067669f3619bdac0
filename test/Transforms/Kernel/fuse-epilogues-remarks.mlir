// Says of each product what its epilogue computes, or why it computes nothing more.
// RUN: kiln-opt %s --kernel-fuse-epilogues --cpu-set-target=cpu=x86-64-v4 --cpu-pack-contracts --remarks-filter='kernel-fuse-epilogues|cpu-pack-contracts' --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s

// CHECK: [Passed] Fused
// CHECK-SAME: Remark="computes node 'tanh' (model.py:4) in its epilogue", Where="node 'mm' (model.py:3)"
func.func @fused(%x: tensor<128x32xf32>, %w: tensor<768x32xf32>) -> tensor<128x768xf32> {
  %c = kernel.contract batch [] m [128] n [768] k [32] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x32xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<768x32xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<128x768xf32> loc("mm"("model.py":3:0))
  %y = kernel.map {
    %e = kernel.read %c (d0, d1) -> (d0, d1) : tensor<128x768xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<128x768xf32> loc("tanh"("model.py":4:0))
  return %y : tensor<128x768xf32>
}

// CHECK: [Missed] NotFused
// CHECK-SAME: Reason="its reader does not visit each element once", Remark="does not compute node 'slice' (model.py:6) in its epilogue", Where="node 'mm_1' (model.py:5)"
func.func @shifted(%x: tensor<128x32xf32>) -> tensor<127x768xf32> {
  %w = kernel.constant "w" dense<1.0> : tensor<768x32xf32> : tensor<768x32xf32>
  %c = kernel.contract batch [] m [128] n [768] k [32] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x32xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<768x32xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<128x768xf32> loc("mm_1"("model.py":5:0))
  %y = kernel.map {
    %e = kernel.read %c (d0, d1) -> (d0 + 1, d1) : tensor<128x768xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<127x768xf32> loc("slice"("model.py":6:0))
  return %y : tensor<127x768xf32>
}

// CHECK: [Missed] NotPacked
// CHECK-SAME: Reason="it is not a constant", Remark="right operand not packed into panels", Where="node 'mm' (model.py:3)"
// CHECK: [Passed] Packed
// CHECK-SAME: Remark="right operand packed into panels of {{[0-9]+}} columns", Where="node 'mm_1' (model.py:5)"
