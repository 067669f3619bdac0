// RUN: kiln-opt %s --torch-expand-foreach --split-input-file | FileCheck %s

// A call for each pair; what a number is for is the same for all, or an element of a list.
// CHECK-LABEL: func.func @pairs
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>, %[[Y:.*]]: tensor<3xf32>, %[[A:.*]]: tensor<2xf32>, %[[B:.*]]: tensor<1xf32>
// CHECK-NEXT: %[[R:.*]] = torch.call "aten.add.Tensor"(%[[X]], %[[A]]) args = [#sym.arg<0>, #sym.arg<1>, 2]
// CHECK-NEXT: %[[S:.*]] = torch.call "aten.add.Tensor"(%[[Y]], %[[B]]) args = [#sym.arg<0>, #sym.arg<1>, 2]
// CHECK-NEXT: torch.call "aten.sub.Scalar"(%[[R]]) args = [#sym.arg<0>, 5.000000e-01, 1]
// CHECK-NEXT: torch.call "aten.sub.Scalar"(%[[S]]) args = [#sym.arg<0>, 3.000000e+00, 1]
// CHECK-NEXT: torch.call "aten.clamp_min.Tensor"(%[[X]], %[[A]])
// CHECK-NEXT: torch.call "aten.linalg_vector_norm.default"(%[[X]]) args = [#sym.arg<0>, 1, unit, false, unit]
// CHECK-NEXT: torch.call "aten.pow.Scalar"(%[[X]]) args = [2, #sym.arg<0>]
// CHECK-NEXT: return
func.func @pairs(%x: tensor<2xf32>, %y: tensor<3xf32>, %a: tensor<2xf32>, %b: tensor<1xf32>) {
  %0:2 = torch.call "aten._foreach_add.List"(%x, %y, %a, %b) args = [[#sym.arg<0>, #sym.arg<1>], [#sym.arg<2>, #sym.arg<3>], 2] {node = "add"} : (tensor<2xf32>, tensor<3xf32>, tensor<2xf32>, tensor<1xf32>) -> (tensor<2xf32>, tensor<3xf32>)
  %1:2 = torch.call "aten._foreach_sub.ScalarList"(%0#0, %0#1) args = [[#sym.arg<0>, #sym.arg<1>], [0.5, 3.0]] {node = "sub"} : (tensor<2xf32>, tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>)
  %2 = torch.call "aten._foreach_maximum.List"(%x, %a) args = [[#sym.arg<0>], [#sym.arg<1>]] {node = "maximum"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = torch.call "aten._foreach_norm.Scalar"(%x) args = [[#sym.arg<0>], 1, unit] {node = "norm"} : (tensor<2xf32>) -> tensor<f32>
  %4 = torch.call "aten._foreach_pow.ScalarAndTensor"(%x) args = [2, [#sym.arg<0>]] {node = "pow"} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// Forms that write, one after the other.
// CHECK-LABEL: func.func @written
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>, %[[Y:.*]]: tensor<2xf32>
// CHECK-NEXT: torch.call "aten.addcdiv_.default"(%[[X]], %[[Y]], %[[Y]]) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, -1.000000e-02] {{.*}} -> tensor<2xf32>
// CHECK-NEXT: torch.call "aten.neg_.default"(%[[X]])
// CHECK-NEXT: torch.call "aten.neg_.default"(%[[X]])
// CHECK-NEXT: torch.call "aten.copy_.default"(%[[Y]], %[[X]]) args = [#sym.arg<0>, #sym.arg<1>, false]
// CHECK-NEXT: return
func.func @written(%x: tensor<2xf32>, %y: tensor<2xf32>) {
  torch.call "aten._foreach_addcdiv_.Scalar"(%x, %y, %y) args = [[#sym.arg<0>], [#sym.arg<1>], [#sym.arg<2>], -0.01] {node = "addcdiv_"} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> ()
  torch.call "aten._foreach_neg_.default"(%x, %x) args = [[#sym.arg<0>, #sym.arg<1>]] {node = "neg_"} : (tensor<2xf32>, tensor<2xf32>) -> ()
  torch.call "aten._foreach_copy_.default"(%y, %x) args = [[#sym.arg<0>], [#sym.arg<1>], false] {node = "copy_"} : (tensor<2xf32>, tensor<2xf32>) -> ()
  return
}

// -----

// Numbers in a tensor are what Python would read of it.
// CHECK-LABEL: func.func @numbers
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>, %[[Y:.*]]: tensor<3xf32>, %[[S:.*]]: tensor<2xbf16>, %[[I:.*]]: tensor<1xi8>
// CHECK-NEXT: %[[A:.*]] = torch.call "aten.select.int"(%[[S]]) args = [#sym.arg<0>, 0, 0] {{.*}} -> tensor<bf16>
// CHECK-NEXT: %[[A64:.*]] = torch.call "aten.to.dtype"(%[[A]]) args = [#sym.arg<0>, #sym.dtype<f64>, false, false, unit] {{.*}} -> tensor<f64>
// CHECK-NEXT: torch.call "aten.addcmul.default"(%[[X]], %[[X]], %[[X]], %[[A64]]) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, #sym.scalar<3>]
// CHECK-NEXT: %[[B:.*]] = torch.call "aten.select.int"(%[[S]]) args = [#sym.arg<0>, 0, 1]
// CHECK-NEXT: %[[B64:.*]] = torch.call "aten.to.dtype"(%[[B]])
// CHECK-NEXT: torch.call "aten.addcmul.default"(%[[Y]], %[[Y]], %[[Y]], %[[B64]])
// CHECK-NEXT: %[[N:.*]] = torch.call "aten.select.int"(%[[I]])
// CHECK-NEXT: %[[N64:.*]] = torch.call "aten.to.dtype"(%[[N]]) {{.*}} -> tensor<i64>
// CHECK-NEXT: torch.call "aten.addcdiv_.default"(%[[X]], %[[X]], %[[X]], %[[N64]])
func.func @numbers(%x: tensor<2xf32>, %y: tensor<3xf32>, %s: tensor<2xbf16>, %i: tensor<1xi8>) -> (tensor<2xf32>, tensor<3xf32>) {
  %0:2 = torch.call "aten._foreach_addcmul.Tensor"(%x, %y, %x, %y, %x, %y, %s) args = [[#sym.arg<0>, #sym.arg<1>], [#sym.arg<2>, #sym.arg<3>], [#sym.arg<4>, #sym.arg<5>], #sym.arg<6>] {node = "a"} : (tensor<2xf32>, tensor<3xf32>, tensor<2xf32>, tensor<3xf32>, tensor<2xf32>, tensor<3xf32>, tensor<2xbf16>) -> (tensor<2xf32>, tensor<3xf32>)
  torch.call "aten._foreach_addcdiv_.Tensor"(%x, %x, %x, %i) args = [[#sym.arg<0>], [#sym.arg<1>], [#sym.arg<2>], #sym.arg<3>] {node = "b"} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<1xi8>) -> ()
  return %0#0, %0#1 : tensor<2xf32>, tensor<3xf32>
}

// -----

// Numbers, and lists, that are fewer or more than the calls stay.
// CHECK-LABEL: func.func @stay
// CHECK: _foreach_addcmul.Tensor
// CHECK: _foreach_addcmul.Tensor
// CHECK: _foreach_mul.List
func.func @stay(%x: tensor<2xf32>, %s: tensor<2xf32>, %c: tensor<1xcomplex<f32>>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = torch.call "aten._foreach_addcmul.Tensor"(%x, %x, %x, %s) args = [[#sym.arg<0>], [#sym.arg<1>], [#sym.arg<2>], #sym.arg<3>] {node = "a"} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = torch.call "aten._foreach_addcmul.Tensor"(%x, %x, %x, %c) args = [[#sym.arg<0>], [#sym.arg<1>], [#sym.arg<2>], #sym.arg<3>] {node = "c"} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<1xcomplex<f32>>) -> tensor<2xf32>
  %2 = torch.call "aten._foreach_mul.List"(%x, %x, %x) args = [[#sym.arg<0>], [#sym.arg<1>, #sym.arg<2>]] {node = "b"} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
