// RUN: kiln-opt %s | kiln-opt | FileCheck %s
// RUN: kiln-opt %s --canonicalize | FileCheck %s --check-prefix=CANON

// What holds always is not looked at; what nobody uses cannot fail.
// CHECK-LABEL: func.func @expect
// CHECK: kernel.expect %{{.*}} if %{{.*}}, "zero" : f32
// CHECK: kernel.expect %{{.*}} if %{{.*}}, "negative" code 3 : f32
// CHECK: kernel.expect %{{.*}} if %{{.*}}, "unused" : f32
// CANON-LABEL: func.func @expect
// CANON: kernel.expect %{{.*}} if %{{.*}}, "negative" code 3 : f32
// CANON-NOT: kernel.expect
func.func @expect(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    %zero = arith.constant 0.0 : f32
    %true = arith.constant true
    %ok = arith.cmpf oge, %a, %zero : f32
    %b = kernel.expect %a if %true, "zero" : f32
    %c = kernel.expect %b if %ok, "negative" code 3 : f32
    %d = kernel.expect %c if %ok, "unused" : f32
    kernel.yield %c : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}
