// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// A number, also of a tensor without dims, is apart from a tensor; the format is text and places.
// CHECK-LABEL: func.func @formats
// CHECK-SAME: (%[[X:.*]]: tensor<?x2xf32, #sym.shape<[s0, 2]>>, %[[S:.*]]: tensor<f32>)
module attributes {sym.symbols = {s0 = {min = 1}}} {
func.func @formats(%x: tensor<?x2xf32, #sym.shape<[s0, 2]>>, %s: tensor<f32>) -> tensor<f32> {
  // CHECK-NEXT: kernel.extern "kiln" "kiln_rt_print"(%[[X]], %[[S]])
  // CHECK-SAME: args = ["stsnsnsf3", "x is ", #sym.arg<0>, ", {", #sym.arg<1>, "} of ", #sym.expr<2*s0>, "; ", #sym.arg<1>]
  // CHECK-SAME: projection = [] impure : (tensor<?x2xf32, #sym.shape<[s0, 2]>>, tensor<f32>) -> ()
  %0 = torch.higher_order "print"(%x, %s) args = ["x is {}, {{{}}} of {n}; {s:.3f}", #sym.arg<0>, #sym.arg<1>, #sym.expr<2*s0>, #sym.arg<1>]
      {node = "print", names = ["", "", "", "n", "s"]} : (tensor<?x2xf32, #sym.shape<[s0, 2]>>, tensor<f32>) -> none
  // An argument that no place names is not kept.
  // CHECK-NEXT: kernel.extern "kiln" "kiln_rt_print"() args = ["s", "[] {} % None"] projection = [] impure : () -> ()
  %1 = torch.higher_order "print"(%x) args = ["{1} {{}} % {0}", unit, [], #sym.arg<0>] {node = "print_1"} : (tensor<?x2xf32, #sym.shape<[s0, 2]>>) -> none
  // In a list a tensor without dims is a tensor, and a text is in quotes.
  // CHECK-NEXT: kernel.extern "kiln" "kiln_rt_print"(%[[S]]) args = ["snsnsts", "[", 1, ", ", 5.000000e-01, ", 'a', ", #sym.arg<0>, "]"]
  %2 = torch.higher_order "print"(%s) args = ["{}", [1, 0.5, "a", #sym.arg<0>]] {node = "print_2"} : (tensor<f32>) -> none
  // CHECK-NEXT: kernel.extern "kiln" "kiln_rt_print"() args = [""]
  %3 = torch.higher_order "print"() args = [""] {node = "print_3"} : () -> none
  return %s : tensor<f32>
}
}

// -----

// A divisor is checked as in arguments of other calls.
// CHECK-LABEL: func.func @division
module attributes {sym.symbols = {s0 = {min = 0}}} {
func.func @division(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>> {
  // CHECK: kernel.assert s0 - 1, "integer division by zero
  // CHECK-NEXT: kernel.extern
  %0 = torch.higher_order "print"() args = ["{}", #sym.expr<7 floordiv s0>] {node = "print"} : () -> none
  return %x : tensor<?xf32, #sym.shape<[s0]>>
}
}
