// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// The factors, then two triangular systems: a loop each, in double precision.
// CHECK-LABEL: func.func @solve
// CHECK: kernel.for @loop_0 length s0(%{{.*}}, %{{.*}}, %{{.*}}) over(%{{.*}}) with()
// CHECK: kernel.check %{{.*}}, "a matrix is singular
// CHECK: kernel.for @loop_1 length s0(%{{.*}}) over(%{{.*}}) with(%{{.*}})
// CHECK: kernel.for @loop_2 length s0
// CHECK: func.func private @loop_0(%{{.*}}: tensor<1x?x?xf64
func.func @solve(%a: tensor<?x?xf32, #sym.shape<[s0, s0]>>, %b: tensor<?x3xf32, #sym.shape<[s0, 3]>>) -> tensor<?x3xf32, #sym.shape<[s0, 3]>> {
  %0 = torch.call "aten.linalg_solve.default"(%a, %b) args = [#sym.arg<0>, #sym.arg<1>, true] {node = "solve"} : (tensor<?x?xf32, #sym.shape<[s0, s0]>>, tensor<?x3xf32, #sym.shape<[s0, 3]>>) -> tensor<?x3xf32, #sym.shape<[s0, 3]>>
  return %0 : tensor<?x3xf32, #sym.shape<[s0, 3]>>
}
