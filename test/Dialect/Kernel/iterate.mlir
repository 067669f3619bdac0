// RUN: kiln-opt %s | kiln-opt | FileCheck %s

// CHECK-LABEL: func.func @halve
// CHECK: %[[R:.*]]:2 = kernel.iterate at_most 100 init(%{{.*}}, %{{.*}} : f64, f64) {
// CHECK: ^bb0(%{{.*}}: f64, %{{.*}}: f64):
// CHECK: kernel.yield %{{.*}}, %{{.*}}, %{{.*}} : i1, f64, f64
// CHECK: } : f64, f64
func.func @halve(%x: tensor<8xf64>) -> tensor<8xf64> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf64> -> f64
    %zero = arith.constant 0.0 : f64
    %half = arith.constant 0.5 : f64
    %last, %steps = kernel.iterate at_most 100 init(%a, %zero : f64, f64) {
    ^bb0(%v: f64, %n: f64):
      %next = arith.mulf %v, %half : f64
      %m = arith.addf %n, %half : f64
      %again = arith.cmpf ogt, %next, %half : f64
      kernel.yield %again, %next, %m : i1, f64, f64
    } : f64, f64
    %sum = arith.addf %last, %steps : f64
    kernel.yield %sum : f64
  } : tensor<8xf64>
  return %y : tensor<8xf64>
}
