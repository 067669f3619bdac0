// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Parts of other sizes, which are the same only because the caller has seen to it: the run says so if not.
// CHECK-LABEL: func.func @sizes_to_be_found_equal
// CHECK-COUNT-2: kernel.assert
// CHECK: kernel.map
// CHECK: kernel.inside
// CHECK: kernel.read %arg1 (d0, d1) -> (d0, d1 - 17)
func.func @sizes_to_be_found_equal(%a: tensor<?x17xf32, #sym.shape<[s0*(s1 floordiv s0), 17]>>, %b: tensor<?x10xf32, #sym.shape<[s1, 10]>>) -> tensor<?x27xf32, #sym.shape<[s0*(s1 floordiv s0), 27]>> {
  %0 = torch.call "aten.cat.default"(%a, %b) args = [[#sym.arg<0>, #sym.arg<1>], 1] {node = "cat"} : (tensor<?x17xf32, #sym.shape<[s0*(s1 floordiv s0), 17]>>, tensor<?x10xf32, #sym.shape<[s1, 10]>>) -> tensor<?x27xf32, #sym.shape<[s0*(s1 floordiv s0), 27]>>
  return %0 : tensor<?x27xf32, #sym.shape<[s0*(s1 floordiv s0), 27]>>
}
