// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Each element that differs from the one before stays; their number is the result's size.
// CHECK-LABEL: func.func @unique_consecutive(
// CHECK: kernel.reduce [1] init
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d2, d1) values(%{{.*}})
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d2, d1) values(%{{.*}})
// CHECK: kernel.reduce [5] init
// CHECK: kernel.check %{{.*}}, "expected a size of u0
// CHECK: kernel.repeat total 5 chunk 5
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d2, d1) values(%{{.*}})
func.func @unique_consecutive(%x: tensor<5xi64>) -> tensor<?xi64, #sym.shape<[u0]>> {
  %0:3 = torch.call "aten.unique_consecutive.default"(%x) args = [#sym.arg<0>, false, false, unit] {node = "unique_consecutive"} : (tensor<5xi64>) -> (tensor<?xi64, #sym.shape<[u0]>>, none, none)
  return %0#0 : tensor<?xi64, #sym.shape<[u0]>>
}
