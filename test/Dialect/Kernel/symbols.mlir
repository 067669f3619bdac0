// RUN: kiln-opt %s | kiln-opt | FileCheck %s
// RUN: kiln-opt --mlir-print-op-generic %s | kiln-opt | FileCheck %s

// CHECK-LABEL: func.func @main
func.func @main(%count: tensor<i64>, %ok: tensor<i1>, %mask: tensor<100xi1>, %starts: tensor<2xi64>)
    -> tensor<?xi64, #sym.shape<[u0]>> {
  // CHECK: kernel.define "u0" from %{{.*}} : tensor<i64>
  kernel.define "u0" from %count : tensor<i64>
  // CHECK: kernel.assert 100 - u0, "at most 100"
  kernel.assert 100 - u0, "at most 100"
  // CHECK: kernel.define "u1" = max(2*u0 - 7, 0)
  kernel.define "u1" = max(2*u0 - 7, 0)
  // CHECK: kernel.check %{{.*}}, "not positive" : tensor<i1>
  kernel.check %ok, "not positive" : tensor<i1>
  // CHECK: kernel.repeat total 100 chunk 64 count {
  // CHECK: } start {
  // CHECK: } : tensor<?xi64, #sym.shape<[u0]>>
  %places = kernel.repeat total 100 chunk 64 count {
    %m = kernel.read %mask (d0, d1) -> (64*d0 + d1) : tensor<100xi1> -> i1
    kernel.yield %m : i1
  } start {
    %s = kernel.read %starts (d0, d1) -> (d0) : tensor<2xi64> -> i64
    kernel.yield %s : i64
  } : tensor<?xi64, #sym.shape<[u0]>>
  return %places : tensor<?xi64, #sym.shape<[u0]>>
}
