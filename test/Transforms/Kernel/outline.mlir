// RUN: kiln-opt %s --split-input-file --kernel-outline | FileCheck %s
// RUN: kiln-opt %s --split-input-file --run-reference --kernel-outline --run-reference -o /dev/null

// Equal ops share a kernel.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = kernel.call @map_0(%{{.*}})
// CHECK: kernel.call @map_0(%[[A]])
// CHECK: kernel.func @map_0(%[[X:.*]]: tensor<8xf32>) -> tensor<8xf32>
// CHECK: kernel.read %[[X]]
// CHECK-NOT: kernel.func
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<8xf32>
  %b = kernel.map {
    %e = kernel.read %a (d0) -> (d0) : tensor<8xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<8xf32>
  return %b : tensor<8xf32>
}

// -----

// The steps of a recurrence read slices of one tensor: they are one kernel, which is called with spans. Of both reads in a
// step, the place that they have in common is the span's.
// CHECK-LABEL: func.func @steps(%arg0: tensor<4x50x64xf32>
// CHECK: %[[S1:.*]] = kernel.span %arg0 from 0 : tensor<4x50x64xf32> -> tensor<9728xf32>
// CHECK: kernel.call @map_0(%[[S1]], %arg1)
// CHECK: %[[S2:.*]] = kernel.span %arg0 from 2624 : tensor<4x50x64xf32> -> tensor<9728xf32>
// CHECK: kernel.call @map_0(%[[S2]], %{{.*}})
// CHECK: kernel.func @map_0(%[[X:.*]]: tensor<9728xf32>, %[[H:.*]]: tensor<4x64xf32>)
// CHECK: kernel.read %[[X]] (d0, d1) -> (3200*d0 + d1)
// CHECK: kernel.read %[[X]] (d0, d1) -> (3200*d0 + d1 + 64)
func.func @steps(%x: tensor<4x50x64xf32>, %h0: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %h1 = kernel.map {
    %e = kernel.read %x (d0, d1) -> (d0, 0, d1) : tensor<4x50x64xf32> -> f32
    %f = kernel.read %x (d0, d1) -> (d0, 1, d1) : tensor<4x50x64xf32> -> f32
    %h = kernel.read %h0 (d0, d1) -> (d0, d1) : tensor<4x64xf32> -> f32
    %p = arith.mulf %e, %f : f32
    %s = arith.addf %p, %h : f32
    kernel.yield %s : f32
  } : tensor<4x64xf32>
  %h2 = kernel.map {
    %e = kernel.read %x (d0, d1) -> (d0, 41, d1) : tensor<4x50x64xf32> -> f32
    %f = kernel.read %x (d0, d1) -> (d0, 42, d1) : tensor<4x50x64xf32> -> f32
    %h = kernel.read %h1 (d0, d1) -> (d0, d1) : tensor<4x64xf32> -> f32
    %p = arith.mulf %e, %f : f32
    %s = arith.addf %p, %h : f32
    kernel.yield %s : f32
  } : tensor<4x64xf32>
  return %h2 : tensor<4x64xf32>
}

// -----

// A slice that nothing else resembles is read where it is.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: kernel.span
// CHECK: kernel.func @map_0(%{{.*}}: tensor<4x50x64xf32>)
func.func @alone(%x: tensor<4x50x64xf32>) -> tensor<4x64xf32> {
  %h = kernel.map {
    %e = kernel.read %x (d0, d1) -> (d0, 7, d1) : tensor<4x50x64xf32> -> f32
    %s = math.exp %e : f32
    kernel.yield %s : f32
  } : tensor<4x64xf32>
  return %h : tensor<4x64xf32>
}

// -----

// Spans begin at multiples of 64 bytes. Rows of 40 bytes are at one in every eighth row: the first and the third are one
// kernel, the second is another.
// CHECK-LABEL: func.func @unaligned
// CHECK: %[[R1:.*]] = kernel.span %arg0 from 0 : tensor<32x10xf32> -> tensor<20xf32>
// CHECK: kernel.call @map_0(%[[R1]])
// CHECK: kernel.call @map_1(%arg0)
// CHECK: %[[R3:.*]] = kernel.span %arg0 from 160 : tensor<32x10xf32> -> tensor<20xf32>
// CHECK: kernel.call @map_0(%[[R3]])
// CHECK: kernel.func @map_0
// CHECK: (d0) -> (d0 + 10)
func.func @unaligned(%x: tensor<32x10xf32>) -> (tensor<10xf32>, tensor<10xf32>, tensor<10xf32>) {
  %a = kernel.map {
    %e = kernel.read %x (d0) -> (1, d0) : tensor<32x10xf32> -> f32
    %s = math.sin %e : f32
    kernel.yield %s : f32
  } : tensor<10xf32>
  %b = kernel.map {
    %e = kernel.read %x (d0) -> (2, d0) : tensor<32x10xf32> -> f32
    %s = math.sin %e : f32
    kernel.yield %s : f32
  } : tensor<10xf32>
  %c = kernel.map {
    %e = kernel.read %x (d0) -> (17, d0) : tensor<32x10xf32> -> f32
    %s = math.sin %e : f32
    kernel.yield %s : f32
  } : tensor<10xf32>
  return %a, %b, %c : tensor<10xf32>, tensor<10xf32>, tensor<10xf32>
}
