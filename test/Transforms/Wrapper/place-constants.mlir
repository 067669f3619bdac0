// RUN: kiln-opt %s --wrapper-place-constants | FileCheck %s

// CHECK-LABEL: wrapper.program @main() attributes {weights_bytes = 512 : i64}
wrapper.program @main() {
  // CHECK: wrapper.constant "a" at 0 dense<1.0
  %0 = wrapper.constant "a" dense<1.0> : tensor<17xf32> to !wrapper.buffer<[17], [1], f32>
  // CHECK: wrapper.constant at 128 dense<2.0
  %1 = wrapper.constant dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // The same value.
  // CHECK: wrapper.constant at 128 dense<2.0
  %2 = wrapper.constant dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // The same value, but replacing one must not replace the other.
  // CHECK: wrapper.constant "b" at 192 dense<2.0
  %3 = wrapper.constant "b" dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // CHECK: wrapper.constant "c" at 256 dense<2.0
  %4 = wrapper.constant "c" dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // Written to: never shared.
  // CHECK: wrapper.constant at 320 mutated dense<2.0
  %5 = wrapper.constant mutated dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // CHECK: wrapper.constant at 128 dense<2.0
  %6 = wrapper.constant dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // CHECK: wrapper.constant at 384 dense<true>
  %7 = wrapper.constant dense<true> : tensor<65xi1> to !wrapper.buffer<[65], [1], i1>
}
