// RUN: kiln-opt %s --cuda-split-reductions | FileCheck %s

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
