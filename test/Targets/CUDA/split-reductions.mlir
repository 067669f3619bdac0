// RUN: kiln-opt %s --cuda-split-reductions | FileCheck %s
// RUN: kiln-opt %s --run-reference --cuda-split-reductions --run-reference -o /dev/null

// The kernel of a fold stays one structured op.
// CHECK-LABEL: kernel.func @fold_0
// CHECK-COUNT-1: kernel.map
// CHECK: kernel.reduce [1048576]
// CHECK-NOT: kernel.map
// CHECK: kernel.return
kernel.func @fold_0(%x: tensor<1048576xf32>) -> tensor<f32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [1048576] init(%zero : f32) {
      %a = kernel.read %x (d0) -> (d0) : tensor<1048576xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<f32>
  kernel.return %y : tensor<f32>
}

// The sum is reduced in 512 parts, then over the parts; what is made of it stays.
// CHECK-LABEL: func.func @mean
// CHECK: %[[PARTS:.*]] = kernel.map {
// CHECK: kernel.reduce [2048]
// CHECK: kernel.read %{{.*}} (d0, d1) -> (2048*d0 + d1) : tensor<1048576xf32> -> f32
// CHECK: } : tensor<512xf32>
// CHECK: kernel.map {
// CHECK: kernel.reduce [512]
// CHECK: kernel.read %[[PARTS]] (d0) -> (d0) : tensor<512xf32> -> f32
// CHECK: arith.divf
func.func @mean(%x: tensor<1048576xf32>) -> tensor<f32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 1048576.0 : f32
    %s = kernel.reduce [1048576] init(%zero : f32) {
      %a = kernel.read %x (d0) -> (d0) : tensor<1048576xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %m = arith.divf %s, %n : f32
    kernel.yield %m : f32
  } : tensor<f32>
  return %y : tensor<f32>
}

// Enough rows are left alone.
// CHECK-LABEL: func.func @rows
// CHECK-COUNT-1: kernel.map
// CHECK-NOT: kernel.map
func.func @rows(%x: tensor<128x65536xf32>) -> tensor<128xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [65536] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<128x65536xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<128xf32>
  return %y : tensor<128xf32>
}

// Of unknown length: as many parts as there are of 2048 elements, up to 512, if the run shows that these are eight; what is left behind
// the parts is reduced with them.
// CHECK-LABEL: func.func @unknown
// CHECK: kernel.cond when {{.*}} then @reduction_in_parts else @reduction(
// CHECK-LABEL: func.func private @reduction_in_parts
// CHECK: %[[PARTS:.*]] = kernel.map {
// CHECK: kernel.reduce [16*(s0 floordiv (16*max(
// CHECK: kernel.map {
// CHECK: %[[SUM:.*]] = kernel.reduce [max(
// CHECK: kernel.read %[[PARTS]] (d0) -> (d0)
// CHECK: %[[REST:.*]] = kernel.reduce [
// CHECK: kernel.read %{{.*}} (d0) -> (
// CHECK: arith.addf %[[SUM]], %[[REST]] : f32
// CHECK-LABEL: func.func private @reduction(
// CHECK-COUNT-1: kernel.reduce [s0]
// CHECK-NOT: kernel.reduce
func.func @unknown(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<f32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [s0] init(%zero : f32) {
      %a = kernel.read %x (d0) -> (d0) : tensor<?xf32, #sym.shape<[s0]>> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<f32>
  return %y : tensor<f32>
}
