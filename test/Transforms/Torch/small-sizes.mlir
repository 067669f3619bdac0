// RUN: kiln-opt %s --torch-functionalize --canonicalize --split-input-file | FileCheck %s

// The transpose of one row is contiguous: the write would be one of the input. Sizes of one are taken from the program.
// CHECK: sym.symbols = {s0 = {max = 9 : i64, min = 2 : i64}}
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<?x3xf32, #sym.shape<[s0, 3]>> {torch.check_strides, torch.name = "x"}
// CHECK: return %[[X]]
module attributes {sym.symbols = {s0 = {min = 0 : i64, max = 9 : i64}}} {
func.func @main(%x: tensor<?x3xf32, #sym.shape<[s0, 3]>> {torch.name = "x"}) -> tensor<?x3xf32, #sym.shape<[s0, 3]>> {
  %0 = torch.call "aten.t.default"(%x) args = [#sym.arg<0>] {node = "t"} : (tensor<?x3xf32, #sym.shape<[s0, 3]>>) -> tensor<3x?xf32, #sym.shape<[3, s0]>>
  %1 = torch.call "aten.contiguous.default"(%0) args = [#sym.arg<0>, #sym.memory_format<contiguous>] {node = "contiguous", torch.strides = #sym.shape<[1, 3]>} : (tensor<3x?xf32, #sym.shape<[3, s0]>>) -> tensor<3x?xf32, #sym.shape<[3, s0]>>
  %2 = torch.call "aten.mul_.Scalar"(%1) args = [#sym.arg<0>, 1] {node = "add_"} : (tensor<3x?xf32, #sym.shape<[3, s0]>>) -> tensor<3x?xf32, #sym.shape<[3, s0]>>
  return %x : tensor<?x3xf32, #sym.shape<[s0, 3]>>
}
}

// -----

// A run of s0 elements takes a size of its own unless it is one: then the flattened transpose is a view.
// CHECK: sym.symbols = {s0 = {min = 2 : i64}}
// CHECK-LABEL: func.func @main
// CHECK: return %{{.*}} : tensor<?x3xf32
module attributes {sym.symbols = {s0 = {min = 0 : i64}}} {
func.func @main(%x: tensor<?x3xf32, #sym.shape<[s0, 3]>> {torch.name = "x"}) -> tensor<?x3xf32, #sym.shape<[s0, 3]>> {
  %0 = torch.call "aten.t.default"(%x) args = [#sym.arg<0>] {node = "t"} : (tensor<?x3xf32, #sym.shape<[s0, 3]>>) -> tensor<3x?xf32, #sym.shape<[3, s0]>>
  %1 = torch.call "aten.flatten.using_ints"(%0) args = [#sym.arg<0>, 0, -1] {node = "flatten", torch.strides = #sym.shape<[1, 3]>} : (tensor<3x?xf32, #sym.shape<[3, s0]>>) -> tensor<?xf32, #sym.shape<[3*s0]>>
  %2 = torch.call "aten.mul_.Scalar"(%1) args = [#sym.arg<0>, 1] {node = "mul_"} : (tensor<?xf32, #sym.shape<[3*s0]>>) -> tensor<?xf32, #sym.shape<[3*s0]>>
  return %x : tensor<?x3xf32, #sym.shape<[s0, 3]>>
}
}

// -----

// Nobody sees whether the value that was transposed is written: all sizes stay.
// CHECK: sym.symbols = {s0 = {min = 0 : i64}}
// CHECK-LABEL: func.func @main
module attributes {sym.symbols = {s0 = {min = 0 : i64}}} {
func.func @main(%x: tensor<?x3xf32, #sym.shape<[s0, 3]>> {torch.name = "x"}) -> tensor<3x?xf32, #sym.shape<[3, s0]>> {
  %0 = torch.call "aten.neg.default"(%x) args = [#sym.arg<0>] {node = "neg"} : (tensor<?x3xf32, #sym.shape<[s0, 3]>>) -> tensor<?x3xf32, #sym.shape<[s0, 3]>>
  %1 = torch.call "aten.t.default"(%0) args = [#sym.arg<0>] {node = "t"} : (tensor<?x3xf32, #sym.shape<[s0, 3]>>) -> tensor<3x?xf32, #sym.shape<[3, s0]>>
  %2 = torch.call "aten.contiguous.default"(%1) args = [#sym.arg<0>, #sym.memory_format<contiguous>] {node = "contiguous", torch.strides = #sym.shape<[1, 3]>} : (tensor<3x?xf32, #sym.shape<[3, s0]>>) -> tensor<3x?xf32, #sym.shape<[3, s0]>>
  %3 = torch.call "aten.mul_.Scalar"(%2) args = [#sym.arg<0>, 1] {node = "add_"} : (tensor<3x?xf32, #sym.shape<[3, s0]>>) -> tensor<3x?xf32, #sym.shape<[3, s0]>>
  return %3 : tensor<3x?xf32, #sym.shape<[3, s0]>>
}
}

// -----

// Of two symbols, the one that decides: for one column of x, and any number of rows, the transpose lies as it is.
// CHECK: sym.symbols = {s0 = {min = 0 : i64}, s1 = {min = 2 : i64}}
// CHECK-LABEL: func.func @main
module attributes {sym.symbols = {s0 = {min = 0 : i64}, s1 = {min = 0 : i64}}} {
func.func @main(%x: tensor<3x?x?xf32, #sym.shape<[3, s0, s1]>> {torch.name = "x"}) -> tensor<3x?x?xf32, #sym.shape<[3, s0, s1]>> {
  %0 = torch.call "aten.transpose.int"(%x) args = [#sym.arg<0>, 0, 2] {node = "t"} : (tensor<3x?x?xf32, #sym.shape<[3, s0, s1]>>) -> tensor<?x?x3xf32, #sym.shape<[s1, s0, 3]>>
  %1 = torch.call "aten.contiguous.default"(%0) args = [#sym.arg<0>, #sym.memory_format<contiguous>] {node = "contiguous", torch.strides = #sym.shape<[1, s1, s0*s1]>} : (tensor<?x?x3xf32, #sym.shape<[s1, s0, 3]>>) -> tensor<?x?x3xf32, #sym.shape<[s1, s0, 3]>>
  %2 = torch.call "aten.mul_.Scalar"(%1) args = [#sym.arg<0>, 1] {node = "add_"} : (tensor<?x?x3xf32, #sym.shape<[s1, s0, 3]>>) -> tensor<?x?x3xf32, #sym.shape<[s1, s0, 3]>>
  return %x : tensor<3x?x?xf32, #sym.shape<[3, s0, s1]>>
}
}
