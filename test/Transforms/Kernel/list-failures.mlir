// RUN: kiln-opt %s --kernel-list-failures | FileCheck %s
// RUN: kiln-opt %s --run-reference --kernel-list-failures --run-reference -o /dev/null

// Equal messages have one number; what has one already keeps it.
// CHECK: module attributes {kernel.failures = ["zero", "negative"]}
// CHECK: kernel.expect %{{.*}} if %{{.*}}, "zero" code 2 : i64
// CHECK: kernel.expect %{{.*}} if %{{.*}}, "negative" code 3 : i64
// CHECK: kernel.expect %{{.*}} if %{{.*}}, "zero" code 2 : i64
// CHECK: kernel.expect %{{.*}} if %{{.*}}, "index out of range" code 1 : i64
kernel.func @map_0(%x: tensor<8xi64>, %ok: tensor<8xi1>) -> tensor<8xi64> {
  %0 = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xi64> -> i64
    %c = kernel.read %ok (d0) -> (d0) : tensor<8xi1> -> i1
    %b = kernel.expect %a if %c, "zero" : i64
    %d = kernel.expect %b if %c, "negative" : i64
    %e = kernel.expect %d if %c, "zero" : i64
    %f = kernel.expect %e if %c, "index out of range" code 1 : i64
    kernel.yield %f : i64
  } : tensor<8xi64>
  kernel.return %0 : tensor<8xi64>
}
