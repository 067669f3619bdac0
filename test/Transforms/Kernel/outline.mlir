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

// -----

// Numbers that differ among otherwise equal kernels are handed to them, those that do not stay. Rounded ones are handed over
// rounded. It does not matter in which order constants are, and which of them are equal.
// CHECK-LABEL: func.func @quantize
// CHECK: %[[FLOATS:.*]] = kernel.constant dense<[2.500000e-01, 1.300000e+02]> : tensor<2xf32>
// CHECK: %[[INTEGERS:.*]] = kernel.constant dense<7> : tensor<1xi32>
// CHECK: kernel.call @map_0(%arg0, %[[FLOATS]], %[[INTEGERS]])
// CHECK: kernel.constant dense<[1.000000e-01, 5.000000e-01]> : tensor<2xf32>
// CHECK: kernel.constant dense<9> : tensor<1xi32>
// CHECK: kernel.call @map_0
// CHECK: kernel.func @map_0(%[[X:.*]]: tensor<4x8xf32>, %[[F:.*]]: tensor<2xf32>, %[[I:.*]]: tensor<1xi32>)
// CHECK-DAG: %[[SCALE:.*]] = kernel.read %[[F]] (d0, d1) -> (0) : tensor<2xf32> -> f32
// CHECK-DAG: %[[ZERO:.*]] = kernel.read %[[F]] (d0, d1) -> (1) : tensor<2xf32> -> f32
// CHECK-DAG: %[[STEP:.*]] = kernel.read %[[I]] (d0, d1) -> (0) : tensor<1xi32> -> i32
// CHECK: arith.mulf %{{.*}}, %[[SCALE]]
// CHECK: arith.addf %{{.*}}, %[[ZERO]]
// CHECK: %[[LOW:.*]] = arith.constant 5.000000e-01 : f32
// CHECK: %[[MORE:.*]] = arith.maximumf %{{.*}}, %[[LOW]]
// CHECK: arith.mulf %[[MORE]], %[[SCALE]]
// CHECK: arith.muli %{{.*}}, %[[STEP]]
// CHECK-NOT: kernel.func
func.func @quantize(%x: tensor<4x8xf32>) -> (tensor<4x8xi32>, tensor<4x8xi32>) {
  %a = kernel.map {
    %low = arith.constant 0.5 : f32
    %zero = arith.constant 130.0 : f32
    %wide = arith.constant 0.25 : f64
    %step = arith.constant 7 : i32
    %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
    %scale = arith.truncf %wide : f64 to f32
    %s = arith.mulf %e, %scale : f32
    %z = arith.addf %s, %zero : f32
    %c = arith.maximumf %z, %low : f32
    %m = arith.mulf %c, %scale : f32
    %i = arith.fptosi %m : f32 to i32
    %r = arith.muli %i, %step : i32
    kernel.yield %r : i32
  } : tensor<4x8xi32>
  %b = kernel.map {
    %low = arith.constant 0.5 : f32
    %wide = arith.constant 0.1 : f64
    %step = arith.constant 9 : i32
    %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
    %scale = arith.truncf %wide : f64 to f32
    %s = arith.mulf %e, %scale : f32
    %z = arith.addf %s, %low : f32
    %c = arith.maximumf %z, %low : f32
    %m = arith.mulf %c, %scale : f32
    %i = arith.fptosi %m : f32 to i32
    %r = arith.muli %i, %step : i32
    kernel.yield %r : i32
  } : tensor<4x8xi32>
  return %a, %b : tensor<4x8xi32>, tensor<4x8xi32>
}

// -----

// Code is generated for a divisor, for an exponent and for where a sum begins.
// CHECK-LABEL: func.func @constants
// CHECK-COUNT-6: kernel.call @map_{{[0-5]}}(%{{[^,]*}}) :
// CHECK-COUNT-6: kernel.func @map_{{[0-5]}}(%{{[^,]*}}) ->
func.func @constants(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = kernel.map {
    %c = arith.constant 4.0 : f32
    %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
    %r = arith.divf %e, %c : f32
    kernel.yield %r : f32
  } : tensor<4x8xf32>
  %b = kernel.map {
    %c = arith.constant 3.0 : f32
    %e = kernel.read %a (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
    %r = arith.divf %e, %c : f32
    kernel.yield %r : f32
  } : tensor<4x8xf32>
  %d = kernel.map {
    %c = arith.constant 2.0 : f32
    %e = kernel.read %b (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
    %r = math.powf %e, %c : f32
    kernel.yield %r : f32
  } : tensor<4x8xf32>
  %f = kernel.map {
    %c = arith.constant 0.5 : f32
    %e = kernel.read %d (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
    %r = math.powf %e, %c : f32
    kernel.yield %r : f32
  } : tensor<4x8xf32>
  %g = kernel.map {
    %c = arith.constant 0.0 : f32
    %s = kernel.reduce [8] init(%c : f32) {
      %e = kernel.read %f (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %t = arith.addf %p, %q : f32
      kernel.yield %t : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<4xf32>
  %h = kernel.map {
    %c = arith.constant 1.0 : f32
    %s = kernel.reduce [8] init(%c : f32) {
      %e = kernel.read %f (d0, d1) -> (d0, d1) : tensor<4x8xf32> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %t = arith.addf %p, %q : f32
      kernel.yield %t : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<4xf32>
  return %g, %h : tensor<4xf32>, tensor<4xf32>
}
