// RUN: kiln-opt %s --lower-extern | FileCheck %s

// The workspace is one more result, whose size is that of this call; sizes of this call are arguments, too. What is written comes last.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:3 = kernel.extern "c" "g"(%arg0, %arg1) args = [#sym.arg<1>, #sym.arg<0>, #sym.expr<2*s0>, 3] projection = [0, 1] updates = [1]
// CHECK-SAME: -> (tensor<?xf32, #sym.shape<[4*s0]>>, tensor<?xui8, #sym.shape<[max(8*s0 + 4, 0)]>>, tensor<4xf32>)
// CHECK: %[[S:.*]]:3 = kernel.extern "c" "g"(%arg1, %arg1) args = [#sym.arg<1>, #sym.arg<0>, 4, 3] projection = [0, 1] updates = [1]
// CHECK-SAME: -> (tensor<8xf32>, tensor<20xui8>, tensor<4xf32>)
// CHECK: return %[[R]]#0, %[[R]]#2, %[[S]]#0
// CHECK-NOT: func.func
func.func @main(%x: tensor<?xf32, #sym.shape<[2*s0]>>, %y: tensor<4xf32>) -> (tensor<?xf32, #sym.shape<[4*s0]>>, tensor<4xf32>, tensor<8xf32>) {
  %0:2 = kernel.invoke_extern @f(%x, %y) symbols [2*s0] : (tensor<?xf32, #sym.shape<[2*s0]>>, tensor<4xf32>) -> (tensor<?xf32, #sym.shape<[4*s0]>>, tensor<4xf32>)
  %1:2 = kernel.invoke_extern @f(%y, %y) symbols [4] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  return %0#0, %0#1, %1#0 : tensor<?xf32, #sym.shape<[4*s0]>>, tensor<4xf32>, tensor<8xf32>
}
func.func private @f(tensor<?xf32, #sym.shape<[p.0]>>, tensor<4xf32>) -> (tensor<?xf32, #sym.shape<[2*p.0]>>, tensor<4xf32>)
    attributes {kernel.extern_code = #kernel.extern_code<library = "c", callee = "g", args = [#sym.arg<1>, #sym.arg<0>, #sym.expr<p.0>, 3],
                workspace = <4*p.0 + 4>, writes = [1]>}
