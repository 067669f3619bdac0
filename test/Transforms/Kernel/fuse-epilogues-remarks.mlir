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

// CHECK: [Missed] NotFused
// CHECK-SAME: Reason="its reader gathers at many places, which each tile would find anew", Remark="does not compute node 'add' (model.py:15) in its epilogue", Where="node 'mm_7' (model.py:14)"
func.func @gathers(%x: tensor<128x32xf32>, %t: tensor<9x768xf32>) -> tensor<128x768xf32> {
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
  } : tensor<128x768xf32> loc("mm_7"("model.py":14:0))
  %y = kernel.map {
    %half = arith.constant 64 : i64
    %one = arith.constant 1 : i64
    %e = kernel.read %c (d0, d1) -> (d0, d1) : tensor<128x768xf32> -> f32
    %i = kernel.index (d0, d1) -> (d0)
    %j = arith.divsi %i, %half : i64
    %k = arith.addi %j, %one : i64
    %l = arith.addi %k, %one : i64
    %m = arith.addi %l, %one : i64
    %n = arith.addi %m, %one : i64
    %p = kernel.read %t (d0, d1, d2) -> (d2, d1) values(%j) : tensor<9x768xf32> -> f32
    %q = kernel.read %t (d0, d1, d2) -> (d2, d1) values(%k) : tensor<9x768xf32> -> f32
    %r = kernel.read %t (d0, d1, d2) -> (d2, d1) values(%l) : tensor<9x768xf32> -> f32
    %s = kernel.read %t (d0, d1, d2) -> (d2, d1) values(%m) : tensor<9x768xf32> -> f32
    %u = kernel.read %t (d0, d1, d2) -> (d2, d1) values(%n) : tensor<9x768xf32> -> f32
    %pq = arith.addf %p, %q : f32
    %rs = arith.addf %r, %s : f32
    %ps = arith.addf %pq, %rs : f32
    %pu = arith.addf %ps, %u : f32
    %z = arith.addf %pu, %e : f32
    kernel.yield %z : f32
  } : tensor<128x768xf32> loc("add"("model.py":15:0))
  return %y : tensor<128x768xf32>
}

// CHECK: [Missed] NotPacked
// CHECK-SAME: Reason="it is not a constant", Remark="right operand not packed into panels", Where="node 'mm' (model.py:3)"
// CHECK: [Passed] Packed
// CHECK-SAME: Remark="right operand packed into panels of {{[0-9]+}} columns", Where="node 'mm_1' (model.py:5)"
