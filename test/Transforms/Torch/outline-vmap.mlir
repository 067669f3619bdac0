// RUN: kiln-opt %s --torch-outline-vmap --split-input-file | FileCheck %s

// Two levels, one inside the other; what is from outside goes in as it is, and dims go where vmap
// wants them.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<3x?xf32, #sym.shape<[3, s0]>>, %[[Y:.*]]: tensor<5x3xf32>, %[[Z:.*]]: tensor<3xf32>
// CHECK-NEXT: %[[T:.*]] = torch.call "aten.movedim.int"(%[[X]]) args = [#sym.arg<0>, 1, 0] {{.*}} -> tensor<?x3xf32, #sym.shape<[s0, 3]>>
// CHECK-NEXT: %[[M:.*]] = torch.higher_order "map_impl"(%[[T]], %[[Y]], %[[Z]]) args = [@vmap_body_0, [#sym.arg<0>], [#sym.arg<1>, #sym.arg<2>]] {{.*}} -> tensor<?x5xf32, #sym.shape<[s0, 5]>>
// CHECK-NEXT: %[[R:.*]] = torch.call "aten.movedim.int"(%[[M]]) args = [#sym.arg<0>, 0, 1] {{.*}} -> tensor<5x?xf32, #sym.shape<[5, s0]>>
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @vmap_body(%[[B:.*]]: tensor<3xf32>, %[[A:.*]]: tensor<3xf32>, %[[Z:.*]]: tensor<3xf32>) -> tensor<f32>
// CHECK: torch.call "aten.mul.Tensor"(%[[A]], %[[B]])
// CHECK: torch.call "aten.add.Tensor"(%{{.*}}, %[[Z]])
// CHECK: func.func private @vmap_body_0(%[[A:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<5x3xf32>, %[[Z:.*]]: tensor<3xf32>) -> tensor<5xf32>
// CHECK-NEXT: %[[M:.*]] = torch.higher_order "map_impl"(%[[Y]], %[[A]], %[[Z]]) args = [@vmap_body, [#sym.arg<0>], [#sym.arg<1>, #sym.arg<2>]]
// CHECK-NEXT: return %[[M]]
func.func @main(%x: tensor<3x?xf32, #sym.shape<[3, s0]>>, %y: tensor<5x3xf32>, %z: tensor<3xf32>) -> tensor<5x?xf32, #sym.shape<[5, s0]>> {
  %0 = torch.call "torch._functorch.predispatch.lazy_load_decompositions"() args = [] {node = "l"} : () -> none
  %1 = torch.call "torch._functorch.predispatch._vmap_increment_nesting"() args = [#sym.expr<s0>, "error"] {node = "i"} : () -> none
  %2 = torch.call "torch._functorch.predispatch._add_batch_dim"(%x) args = [#sym.arg<0>, 1, 1] {node = "a"} : (tensor<3x?xf32, #sym.shape<[3, s0]>>) -> tensor<3xf32>
  %3 = torch.call "torch._functorch.predispatch._vmap_increment_nesting"() args = [5, "error"] {node = "i1"} : () -> none
  %4 = torch.call "torch._functorch.predispatch._add_batch_dim"(%y) args = [#sym.arg<0>, 0, 2] {node = "a1"} : (tensor<5x3xf32>) -> tensor<3xf32>
  %5 = torch.call "aten.mul.Tensor"(%2, %4) args = [#sym.arg<0>, #sym.arg<1>] {node = "mul"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %6 = torch.call "aten.add.Tensor"(%5, %z) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %7 = torch.call "aten.sum.default"(%6) args = [#sym.arg<0>, unit] {node = "sum"} : (tensor<3xf32>) -> tensor<f32>
  %8 = torch.call "torch._functorch.predispatch._remove_batch_dim"(%7) args = [#sym.arg<0>, 2, 5, 0] {node = "r"} : (tensor<f32>) -> tensor<5xf32>
  %9 = torch.call "torch._functorch.predispatch._vmap_decrement_nesting"() args = [] {node = "d"} : () -> none
  %10 = torch.call "torch._functorch.predispatch._remove_batch_dim"(%8) args = [#sym.arg<0>, 1, #sym.expr<s0>, -1] {node = "r1"} : (tensor<5xf32>) -> tensor<5x?xf32, #sym.shape<[5, s0]>>
  %11 = torch.call "torch._functorch.predispatch._vmap_decrement_nesting"() args = [] {node = "d1"} : () -> none
  return %10 : tensor<5x?xf32, #sym.shape<[5, s0]>>
}

// -----

// What leaves its level otherwise stays; lowering refuses it.
// CHECK-LABEL: func.func @leak
// CHECK: _vmap_increment_nesting
// CHECK: _add_batch_dim
func.func @leak(%x: tensor<4x3xf32>) -> tensor<3xf32> {
  %1 = torch.call "torch._functorch.predispatch._vmap_increment_nesting"() args = [4, "error"] {node = "i"} : () -> none
  %2 = torch.call "torch._functorch.predispatch._add_batch_dim"(%x) args = [#sym.arg<0>, 0, 1] {node = "a"} : (tensor<4x3xf32>) -> tensor<3xf32>
  %3 = torch.call "torch._functorch.predispatch._vmap_decrement_nesting"() args = [] {node = "d"} : () -> none
  return %2 : tensor<3xf32>
}
