// RUN: kiln-opt %s --declare-extern --split-input-file | FileCheck %s
// RUN: kiln-opt %s --declare-extern --declare-extern --split-input-file | FileCheck %s

// Bodies go, and so do attributes. What callers need stays: the sizes of results, the workspace, and what is written.
// CHECK-LABEL: func.func @compiled
// CHECK: kernel.invoke_extern @f(%arg0, %arg1) symbols [s0]
// CHECK: func.func private @f(tensor<?xf32, #sym.shape<[p.0]>>, tensor<4xf32>) -> (tensor<?xf32, #sym.shape<[2*p.0]>>, tensor<4xf32>) attributes {kernel.extern_code = #kernel.extern_code<library = "c", callee = "g", args = [#sym.arg<0>, #sym.arg<1>], workspace = <p.0>, writes = [1]>}
// CHECK-NOT: torch.call
func.func @compiled(%x: tensor<?xf32, #sym.shape<[s0]>>, %y: tensor<4xf32>) -> (tensor<?xf32, #sym.shape<[2*s0]>>, tensor<4xf32>) {
  %0:2 = kernel.invoke_extern @f(%x, %y) symbols [s0] : (tensor<?xf32, #sym.shape<[s0]>>, tensor<4xf32>) -> (tensor<?xf32, #sym.shape<[2*s0]>>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<?xf32, #sym.shape<[2*s0]>>, tensor<4xf32>
}
func.func private @f(%x: tensor<?xf32, #sym.shape<[p.0]>> {torch.name = "x"}, %y: tensor<4xf32>) -> (tensor<?xf32, #sym.shape<[2*p.0]>>, tensor<4xf32>)
    attributes {kernel.extern = {generator = "c", pattern = "f", inline},
                kernel.extern_code = #kernel.extern_code<library = "c", callee = "g", args = [#sym.arg<0>, #sym.arg<1>], workspace = <p.0>, writes = [1]>} {
  %0 = torch.call "aten.cat.default"(%x, %x) args = [[#sym.arg<0>, #sym.arg<1>], 0] {node = "cat"} : (tensor<?xf32, #sym.shape<[p.0]>>, tensor<?xf32, #sym.shape<[p.0]>>) -> tensor<?xf32, #sym.shape<[2*p.0]>>
  %1 = torch.call "aten.relu.default"(%y) args = [#sym.arg<0>] {node = "relu"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<?xf32, #sym.shape<[2*p.0]>>, tensor<4xf32>
}

// -----

// Parts that have not been compiled go back, with the sizes of each call.
// CHECK-LABEL: func.func @left
// CHECK: %[[A:.*]] = torch.call "aten.relu.default"(%arg0) {{.*}} : (tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>>
// CHECK: %[[B:.*]] = torch.call "aten.relu.default"(%arg1) {{.*}} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: return %[[A]], %[[B]]
// CHECK-NOT: func.func
func.func @left(%x: tensor<?xf32, #sym.shape<[s0]>>, %y: tensor<8xf32>) -> (tensor<?xf32, #sym.shape<[s0]>>, tensor<8xf32>) {
  %0 = kernel.invoke_extern @f(%x) symbols [s0] : (tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>>
  %1 = kernel.invoke_extern @f(%y) symbols [8] : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<?xf32, #sym.shape<[s0]>>, tensor<8xf32>
}
func.func private @f(%x: tensor<?xf32, #sym.shape<[p.0]>>) -> tensor<?xf32, #sym.shape<[p.0]>> attributes {kernel.extern = {generator = "c", pattern = "f"}} {
  %0 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "relu"} : (tensor<?xf32, #sym.shape<[p.0]>>) -> tensor<?xf32, #sym.shape<[p.0]>>
  return %0 : tensor<?xf32, #sym.shape<[p.0]>>
}
