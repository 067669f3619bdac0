// RUN: kiln-opt %s --torch-rename-symbols | FileCheck %s

// Both branches define u0, and the second's own branches use it; a number of the program stays.
// CHECK: sym.symbols = {s0 = {min = 2 : i64}, u0 = {max = 9 : i64, min = 0 : i64}, u0_1 = {min = 1 : i64}, u0_2 = {max = 9 : i64, min = 0 : i64}, u1 = {}}
module attributes {sym.symbols = {s0 = {min = 2}, u0 = {min = 0, max = 9}, u0_1 = {min = 1}, u1 = {}}} {
  // CHECK-LABEL: func.func @main
  // CHECK: torch.higher_order "cond"{{.*}} {defines = ["u1"], node = "cond"}
  func.func @main(%p: tensor<i1>, %x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?x1xi64, #sym.shape<[u1, 1]>> {
    %0 = torch.higher_order "cond"(%p, %x) args = [#sym.arg<0>, @first, @second, [#sym.arg<1>]] {node = "cond", defines = ["u1"]}
        : (tensor<i1>, tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?x1xi64, #sym.shape<[u1, 1]>>
    return %0 : tensor<?x1xi64, #sym.shape<[u1, 1]>>
  }
  // CHECK: func.func private @first
  // CHECK: {defines = ["u0"], node = "nonzero"} : {{.*}} -> tensor<?x1xi64, #sym.shape<[u0, 1]>>
  func.func private @first(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?x1xi64, #sym.shape<[u0, 1]>> {
    %0 = torch.call "aten.nonzero.default"(%x) args = [#sym.arg<0>] {node = "nonzero", defines = ["u0"]}
        : (tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?x1xi64, #sym.shape<[u0, 1]>>
    return %0 : tensor<?x1xi64, #sym.shape<[u0, 1]>>
  }
  // CHECK: func.func private @second({{.*}}) -> tensor<?x1xi64, #sym.shape<[u0_2, 1]>>
  // CHECK: {defines = ["u0_2"], node = "nonzero"} : {{.*}} -> tensor<?x1xi64, #sym.shape<[u0_2, 1]>>
  // CHECK: #sym.expr<2*u0_2>
  func.func private @second(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?x1xi64, #sym.shape<[u0, 1]>> {
    %0 = torch.call "aten.nonzero.default"(%x) args = [#sym.arg<0>] {node = "nonzero", defines = ["u0"]}
        : (tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?x1xi64, #sym.shape<[u0, 1]>>
    %1 = torch.higher_order "invoke_subgraph"(%0) args = [@inner, "name", #sym.arg<0>, #sym.expr<2*u0>] {node = "invoke"}
        : (tensor<?x1xi64, #sym.shape<[u0, 1]>>) -> tensor<?x1xi64, #sym.shape<[u0, 1]>>
    return %1 : tensor<?x1xi64, #sym.shape<[u0, 1]>>
  }
  // CHECK: func.func private @inner(%{{.*}}: tensor<?x1xi64, #sym.shape<[u0_2, 1]>>, %{{.*}}: tensor<i64> {torch.value = #sym.expr<2*u0_2>})
  func.func private @inner(%x: tensor<?x1xi64, #sym.shape<[u0, 1]>>, %n: tensor<i64> {torch.value = #sym.expr<2*u0>})
      -> tensor<?x1xi64, #sym.shape<[u0, 1]>> {
    return %x : tensor<?x1xi64, #sym.shape<[u0, 1]>>
  }
}
