// RUN: kiln-opt %s --kernel-hoist-invariants --cse | FileCheck %s
// RUN: kiln-opt %s --run-reference --kernel-hoist-invariants --cse --run-reference -o /dev/null

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

// What a reduction may not compute at all stays in it: it could fail for nothing.
// CHECK-LABEL: func.func @expectation
// CHECK: kernel.reduce [s0]
// CHECK: kernel.expect
// CHECK: combine
// CHECK: kernel.expect
// CHECK: kernel.reduce [4]
func.func @expectation(%x: tensor<8x?xi64, #sym.shape<[8, s0]>>, %y: tensor<8xi64>, %z: tensor<8x4xi64>) -> (tensor<8xi64>, tensor<8xi64>) {
  %0:2 = kernel.map {
    %zero = arith.constant 0 : i64
    %sum = kernel.reduce [s0] init(%zero : i64) {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x?xi64, #sym.shape<[8, s0]>> -> i64
      %b = kernel.read %y (d0, d1) -> (d0) : tensor<8xi64> -> i64
      %ok = arith.cmpi ne, %b, %zero : i64
      %c = kernel.expect %b if %ok, "zero" : i64
      %q = arith.divsi %a, %c : i64
      kernel.yield %q : i64
    } combine {
    ^bb0(%a: i64, %b: i64):
      %c = arith.addi %a, %b : i64
      kernel.yield %c : i64
    } : i64
    %other = kernel.reduce [4] init(%zero : i64) {
      %a = kernel.read %z (d0, d1) -> (d0, d1) : tensor<8x4xi64> -> i64
      %b = kernel.read %y (d0, d1) -> (d0) : tensor<8xi64> -> i64
      %ok = arith.cmpi ne, %b, %zero : i64
      %c = kernel.expect %b if %ok, "zero" : i64
      %q = arith.divsi %a, %c : i64
      kernel.yield %q : i64
    } combine {
    ^bb0(%a: i64, %b: i64):
      %c = arith.addi %a, %b : i64
      kernel.yield %c : i64
    } : i64
    kernel.yield %sum, %other : i64, i64
  } : tensor<8xi64>, tensor<8xi64>
  return %0#0, %0#1 : tensor<8xi64>, tensor<8xi64>
}
