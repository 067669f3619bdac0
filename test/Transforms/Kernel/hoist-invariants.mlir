// RUN: kiln-opt %s --kernel-hoist-invariants --cse | FileCheck %s

// Two copies of a row's maximum, one of them inside the sum, become one in front of it.
// CHECK-LABEL: func.func @softmax_denominator
// CHECK: kernel.map
// CHECK: %[[MAX:.*]] = kernel.reduce [768]
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d0, d1)
// CHECK: %[[SUM:.*]] = kernel.reduce [768]
// CHECK-NOT: kernel.reduce
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d0, d1)
// CHECK: arith.subf %{{.*}}, %[[MAX]]
func.func @softmax_denominator(%x: tensor<8x768xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %m, %s = kernel.map {
    %ninf = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %max = kernel.reduce [768] init(%ninf : f32) {
      %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.maximumf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %sum = kernel.reduce [768] init(%zero : f32) {
      %again = kernel.reduce [768] init(%ninf : f32) {
        %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x768xf32> -> f32
        kernel.yield %e : f32
      } combine {
      ^bb0(%a: f32, %b: f32):
        %c = arith.maximumf %a, %b : f32
        kernel.yield %c : f32
      } : f32
      %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
      %d = arith.subf %e, %again : f32
      %p = math.exp %d : f32
      kernel.yield %p : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %max, %sum : f32, f32
  } : tensor<8xf32>, tensor<8xf32>
  return %m, %s : tensor<8xf32>, tensor<8xf32>
}

// Folding leaves constants in the regions that use them.
// RUN: kiln-opt %s --canonicalize | FileCheck %s --check-prefix=FOLD
// FOLD-LABEL: func.func @softmax_denominator
// FOLD-NEXT: kernel.map
