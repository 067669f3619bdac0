// RUN: kiln-opt %s --wrapper-reuse-buffers | FileCheck %s

// CHECK-LABEL: wrapper.program @main
wrapper.program @main() attributes {symbols = {s0 = {}, s1 = {}}} {
  // CHECK: %[[A:.*]] = wrapper.alloc : <[s0, 4], [4, 1], f32>
  // CHECK-NEXT: %[[B:.*]] = wrapper.alloc : <[4*s0], [1], f32>
  %a = wrapper.alloc : !wrapper.buffer<[s0, 4], [4, 1], f32>
  %b = wrapper.alloc : !wrapper.buffer<[4*s0], [1], f32>
  wrapper.free %a : !wrapper.buffer<[s0, 4], [4, 1], f32>
  wrapper.free %b : !wrapper.buffer<[4*s0], [1], f32>
  // The same number of bytes: the one that was freed last.
  // CHECK-NEXT: wrapper.free %[[A]]
  // CHECK-NEXT: %[[C:.*]] = wrapper.reuse %[[B]] : <[4*s0], [1], f32> -> <[s0, 2], [2, 1], f64>
  %c = wrapper.alloc : !wrapper.buffer<[s0, 2], [2, 1], f64>
  // CHECK-NEXT: wrapper.alloc : <[s1, 4]
  %d = wrapper.alloc : !wrapper.buffer<[s1, 4], [4, 1], f32>
  wrapper.free %d : !wrapper.buffer<[s1, 4], [4, 1], f32>
  wrapper.free %c : !wrapper.buffer<[s0, 2], [2, 1], f64>
  // CHECK: wrapper.reuse %[[C]]
  %e = wrapper.alloc : !wrapper.buffer<[s0], [1], complex<f64>>
  // Numbers are left to the planner.
  %f = wrapper.alloc : !wrapper.buffer<[8], [1], f32>
  wrapper.free %f : !wrapper.buffer<[8], [1], f32>
  // CHECK: wrapper.alloc : <[4, 2]
  %g = wrapper.alloc : !wrapper.buffer<[4, 2], [2, 1], f32>
}
