// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Comparisons of symbols are asserted on the host, anything else on what kernels compute.
// CHECK-LABEL: func.func @scalar
module attributes {sym.symbols = {s0 = {min = 2}, u0 = {}, u1 = {}}} {
  func.func @scalar(%f: tensor<f64>) {
    %0 = torch.call "_operator.ge"() args = [#sym.expr<u0>, 4] {node = "ge"} : () -> tensor<i1>
    // CHECK: kernel.assert u0 - 4, "u0 >= 4 (node 'a' (model.py:3))"
    torch.call "aten._assert_scalar.default"(%0) args = [#sym.scalar<0>, "u0 >= 4"] {node = "a"} : (tensor<i1>) -> () loc(#a)
    %1 = torch.call "_operator.eq"() args = [#sym.expr<u0 + u1>, #sym.expr<s0>] {node = "eq"} : () -> tensor<i1>
    // CHECK: kernel.assert
    // CHECK-SAME: "sum
    // CHECK: kernel.assert
    // CHECK-SAME: "sum
    torch.call "aten._assert_scalar.default"(%1) args = [#sym.scalar<0>, "sum"] {node = "b"} : (tensor<i1>) -> ()
    %2 = torch.call "_operator.lt"(%f) args = [#sym.scalar<0>, 1.0] {node = "lt"} : (tensor<f64>) -> tensor<i1>
    %3 = torch.call "_operator.or_"(%0, %2) args = [#sym.scalar<0>, #sym.scalar<1>] {node = "or"} : (tensor<i1>, tensor<i1>) -> tensor<i1>
    // CHECK: kernel.check %{{.*}}, "either
    torch.call "aten._assert_scalar.default"(%3) args = [#sym.scalar<0>, "either"] {node = "c"} : (tensor<i1>) -> ()
    // CHECK-NOT: kernel.assert
    // CHECK-NOT: kernel.check
    torch.call "aten._assert_scalar.default"() args = [true, "nothing"] {node = "d"} : () -> ()
    return
  }
}
#line = loc("model.py":3:0)
#a = loc("a"(#line))

// -----

// CHECK-LABEL: func.func @tensor
module attributes {sym.symbols = {u0 = {}}} {
  func.func @tensor(%ok: tensor<1xi32>, %x: tensor<?x3xf32, #sym.shape<[u0, 3]>>) {
    // CHECK: arith.cmpi ne
    // CHECK: kernel.check %{{.*}}, "not so
    torch.call "aten._assert_async.msg"(%ok) args = [#sym.arg<0>, "not so"] {node = "a"} : (tensor<1xi32>) -> ()
    // CHECK: kernel.assert u0 - 4, "Tensor sizes mismatch
    // CHECK: kernel.assert 4 - u0, "Tensor sizes mismatch
    torch.call "aten._assert_tensor_metadata.default"(%x) args = [#sym.arg<0>, [4, 3], unit, #sym.dtype<f32>, unit, unit] {node = "b"} : (tensor<?x3xf32, #sym.shape<[u0, 3]>>) -> ()
    // CHECK: kernel.assert u0 - 2, "a number outside of its range: expected at least 2
    // CHECK: kernel.assert 9 - u0, "a number outside of its range: expected at most 9
    torch.call "aten.sym_constrain_range.default"() args = [#sym.expr<u0>, 2, 9] {node = "c"} : () -> ()
    return
  }
}
