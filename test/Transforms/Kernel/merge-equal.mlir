// RUN: kiln-opt %s --kernel-merge-equal | FileCheck %s

// The first and the third are equal, regions included; the second reads at another place, and nobody uses the last.
// CHECK-LABEL: func.func @regions
// CHECK-COUNT-2: kernel.map
// CHECK-NOT: kernel.map
// CHECK: return %[[A:.*]], %{{.*}}, %[[A]]
func.func @regions(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<4xf32>
  %b = kernel.map {
    %e = kernel.read %x (d0) -> (d0 + 4) : tensor<8xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<4xf32>
  %c = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<4xf32>
  %unused = kernel.map {
    %e = kernel.read %x (d0) -> (d0 + 2) : tensor<8xf32> -> f32
    kernel.yield %e : f32
  } : tensor<4xf32>
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Facts from around a region are known inside, but not the other way round.
// CHECK-LABEL: func.func @scopes
// CHECK: kernel.map
// CHECK: %[[ZERO:.*]] = arith.constant 0
// CHECK-NOT: arith.constant 0
// CHECK: kernel.reduce [4] init(%[[ZERO]] : f32)
// CHECK-NOT: arith.constant 0
// CHECK: kernel.map
// CHECK: arith.constant 0
func.func @scopes(%x: tensor<8x4xf32>) -> (tensor<8xf32>, tensor<2xf32>) {
  %a = kernel.map {
    %zero = arith.constant 0.0 : f32
    %sum = kernel.reduce [4] init(%zero : f32) {
      %none = arith.constant 0.0 : f32
      %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
      %p = arith.maximumf %e, %none : f32
      kernel.yield %p : f32
    } combine {
    ^bb0(%l: f32, %r: f32):
      %s = arith.addf %l, %r : f32
      kernel.yield %s : f32
    } : f32
    kernel.yield %sum : f32
  } : tensor<8xf32>
  %b = kernel.map {
    %zero = arith.constant 0.0 : f32
    kernel.yield %zero : f32
  } : tensor<2xf32>
  return %a, %b : tensor<8xf32>, tensor<2xf32>
}

// A call that does more than its results say is made as often as it is written.
// CHECK-LABEL: func.func @effects
// CHECK-COUNT-2: kernel.extern "c" "draw"
func.func @effects() -> (tensor<4xf32>, tensor<4xf32>) {
  %a = kernel.extern "c" "draw"() args = [] projection = [0] impure : () -> tensor<4xf32>
  %b = kernel.extern "c" "draw"() args = [] projection = [0] impure : () -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}
