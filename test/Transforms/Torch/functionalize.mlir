// RUN: kiln-opt %s --torch-functionalize --canonicalize --split-input-file | FileCheck %s

// Later uses see the new value.
// CHECK-LABEL: func.func @plain
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: %[[V0:.*]] = torch.call "aten.relu.default"(%[[A0]]) args = [#sym.arg<0>] {node = "relu"}
// CHECK: %[[V1:.*]] = torch.call "aten.add.Tensor"(%[[V0]], %[[A0]]) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add_"}
// CHECK: %[[V2:.*]] = torch.call "aten.neg.default"(%[[V1]]) args = [#sym.arg<0>] {node = "neg"}
// CHECK: return %[[V2]]
func.func @plain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "relu"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = torch.call "aten.add_.Tensor"(%0, %x) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add_"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = torch.call "aten.neg.default"(%0) args = [#sym.arg<0>] {node = "neg"} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// A write through views is undone view by view; another view is taken again.
// CHECK-LABEL: func.func @views
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: %[[V0:.*]] = torch.call "aten.clone.default"(%[[A0]]) args = [#sym.arg<0>, unit] {node = "clone"}
// CHECK: %[[V1:.*]] = torch.call "aten.t.default"(%[[V0]]) args = [#sym.arg<0>] {node = "t"}
// CHECK: %[[V2:.*]] = torch.call "aten.slice.Tensor"(%[[V1]]) args = [#sym.arg<0>, 0, 1, 3, 1] {node = "slice"}
// CHECK: %[[V3:.*]] = torch.call "aten.zero.default"(%[[V2]]) args = [#sym.arg<0>] {node = "zero_"}
// CHECK: %[[V4:.*]] = torch.call "aten.t.default"(%[[V0]]) args = [#sym.arg<0>] {node = "t"}
// CHECK: %[[V5:.*]] = torch.call "aten.slice_scatter.default"(%[[V4]], %[[V3]]) args = [#sym.arg<0>, #sym.arg<1>, 0, 1, 3, 1] {node = "slice"}
// CHECK: %[[V6:.*]] = torch.call "aten.t.default"(%[[V5]]) args = [#sym.arg<0>] {node = "t"}
// CHECK: %[[V7:.*]] = torch.call "aten.select.int"(%[[V6]]) args = [#sym.arg<0>, 0, 1] {node = "row"}
// CHECK: return %[[V6]], %[[V7]]
func.func @views(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>) {
  %0 = torch.call "aten.clone.default"(%x) args = [#sym.arg<0>, unit] {node = "clone"} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = torch.call "aten.select.int"(%0) args = [#sym.arg<0>, 0, 1] {node = "row"} : (tensor<3x4xf32>) -> tensor<4xf32>
  %2 = torch.call "aten.t.default"(%0) args = [#sym.arg<0>] {node = "t"} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %3 = torch.call "aten.slice.Tensor"(%2) args = [#sym.arg<0>, 0, 1, 3, 1] {node = "slice"} : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %4 = torch.call "aten.zero_.default"(%3) args = [#sym.arg<0>] {node = "zero_"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<3x4xf32>, tensor<4xf32>
}

// -----

// The new value of an input is one more result.
// CHECK-LABEL: func.func @input
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}} -> ({{.*}}, tensor<4xf32> {torch.mutates = "x", torch.mutates_kind = "input"})
// CHECK: %[[V0:.*]] = torch.call "aten.mul.Scalar"(%[[A0]]) args = [#sym.arg<0>, 2] {node = "mul_"}
// CHECK: %[[V1:.*]] = torch.call "aten.neg.default"(%[[V0]]) args = [#sym.arg<0>] {node = "neg"}
// CHECK: return %[[V1]], %[[V0]]
func.func @input(%x: tensor<4xf32> {torch.name = "x"}) -> (tensor<4xf32> {torch.name = "y"}) {
  %0 = torch.call "aten.mul_.Scalar"(%x) args = [#sym.arg<0>, 2] {node = "mul_"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = torch.call "aten.neg.default"(%x) args = [#sym.arg<0>] {node = "neg"} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// So is that of a buffer.
// CHECK-LABEL: func.func @buffer
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}} -> ({{.*}}, tensor<2xf32> {torch.mutates = "count", torch.mutates_kind = "buffer"})
// CHECK: %[[V0:.*]] = torch.constant "count" = dense<0.000000e+00> : tensor<2xf32> {kind = "buffer", mutated}
// CHECK: %[[V1:.*]] = torch.call "aten.add.Tensor"(%[[V0]], %[[A0]]) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add_"}
// CHECK: return %[[V1]], %[[V1]]
func.func @buffer(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = torch.constant "count" = dense<0.0> : tensor<2xf32> {kind = "buffer"}
  %1 = torch.call "aten.add_.Tensor"(%0, %x) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add_"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// Only this tensor's shape changes.
// CHECK-LABEL: func.func @metadata
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: %[[V0:.*]] = torch.call "aten.clone.default"(%[[A0]]) args = [#sym.arg<0>, unit] {node = "clone"}
// CHECK: %[[V1:.*]] = torch.call "aten.unsqueeze.default"(%[[V0]]) args = [#sym.arg<0>, 0] {node = "unsqueeze_"}
// CHECK: %[[V2:.*]] = torch.call "aten.add.Tensor"(%[[V1]], %[[A0]]) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add_"}
// CHECK: return %[[V2]]
func.func @metadata(%x: tensor<4xf32>) -> tensor<1x4xf32> {
  %0 = torch.call "aten.clone.default"(%x) args = [#sym.arg<0>, unit] {node = "clone"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = torch.call "aten.unsqueeze_.default"(%0) args = [#sym.arg<0>, 0] {node = "unsqueeze_"} : (tensor<4xf32>) -> tensor<1x4xf32>
  %2 = torch.call "aten.add_.Tensor"(%1, %x) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add_"} : (tensor<1x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  return %2 : tensor<1x4xf32>
}

// -----

// An operator without a form that returns its results: it writes copies, and returns those. Views and the returned argument
// see the new values.
// CHECK-LABEL: func.func @updates
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>, %[[OUT:.*]]: tensor<4xf32> {torch.name = "out"}) -> ({{.*}}, tensor<4xf32> {torch.mutates = "out", torch.mutates_kind = "input"})
// CHECK: %[[C:.*]] = torch.call "aten.clone.default"(%[[X]])
// CHECK: %[[U:.*]]:2 = torch.call "aten._foreach_mul_.ScalarList"(%[[C]], %[[OUT]]) args = {{.*}} {node = "mul_", updates = array<i64: 0, 1>}
// CHECK-SAME: -> (tensor<2x4xf32>, tensor<4xf32>)
// CHECK: %[[ROW:.*]] = torch.call "aten.select.int"(%[[U]]#0)
// CHECK: %[[A:.*]]:2 = torch.call "aten.erfinv.out"(%[[ROW]], %[[U]]#1) args = [#sym.arg<0>, #sym.arg<1>] {node = "erfinv", updates = array<i64: 1>}
// CHECK: %[[N:.*]] = torch.call "aten.neg.default"(%[[A]]#1)
// CHECK: return %[[U]]#0, %[[N]], %[[A]]#1
func.func @updates(%x: tensor<2x4xf32>, %out: tensor<4xf32> {torch.name = "out"}) -> (tensor<2x4xf32>, tensor<4xf32>) {
  %0 = torch.call "aten.clone.default"(%x) args = [#sym.arg<0>, unit] {node = "clone"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = torch.call "aten.select.int"(%0) args = [#sym.arg<0>, 0, 1] {node = "select"} : (tensor<2x4xf32>) -> tensor<4xf32>
  torch.call "aten._foreach_mul_.ScalarList"(%0, %out) args = [[#sym.arg<0>, #sym.arg<1>], [2.0, 3.0]] {node = "mul_"} : (tensor<2x4xf32>, tensor<4xf32>) -> ()
  %2 = torch.call "aten.erfinv.out"(%1, %out) args = [#sym.arg<0>, #sym.arg<1>] {node = "erfinv"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = torch.call "aten.neg.default"(%2) args = [#sym.arg<0>] {node = "neg"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %3 : tensor<2x4xf32>, tensor<4xf32>
}

// -----

// In training mode batch norm writes its running statistics, which the schema does not say; in evaluation it reads them.
// CHECK-LABEL: func.func @statistics
// CHECK-SAME: tensor<3xf32> {torch.mutates = "mean", torch.mutates_kind = "buffer"}, tensor<3xf32> {torch.mutates = "var", torch.mutates_kind = "buffer"}
// CHECK: %[[R:.*]]:3 = torch.call "aten.batch_norm.default"{{.*}}updates = array<i64: 1, 2>
// CHECK: torch.call "aten.batch_norm.default"(%[[R]]#0, %[[R]]#1, %[[R]]#2)
// CHECK-NOT: updates
// CHECK: return %{{.*}}, %[[R]]#1, %[[R]]#2
func.func @statistics(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %mean = torch.constant "mean" = dense<0.0> : tensor<3xf32> {kind = "buffer"}
  %var = torch.constant "var" = dense<1.0> : tensor<3xf32> {kind = "buffer"}
  %0 = torch.call "aten.batch_norm.default"(%x, %mean, %var) args = [#sym.arg<0>, unit, unit, #sym.arg<1>, #sym.arg<2>, true, 0.1, 1.0e-05, true] {node = "a"} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = torch.call "aten.batch_norm.default"(%0, %mean, %var) args = [#sym.arg<0>, unit, unit, #sym.arg<1>, #sym.arg<2>, false, 0.1, 1.0e-05, true] {node = "b"} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// A tensor that nothing else sees gets another shape, and is written as such.
// CHECK-LABEL: func.func @resize
// CHECK: %[[C:.*]] = torch.call "aten.clone.default"
// CHECK: %[[R:.*]] = torch.call "aten.resize.default"(%[[C]]) {{.*}} -> tensor<2x3xf32>
// CHECK: %[[N:.*]] = torch.call "aten.neg.default"(%[[R]]) {{.*}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK: return %[[N]], %[[N]]
func.func @resize(%x: tensor<6xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = torch.call "aten.clone.default"(%x) args = [#sym.arg<0>, unit] {node = "clone"} : (tensor<6xf32>) -> tensor<6xf32>
  %1 = torch.call "aten.resize_.default"(%0) args = [#sym.arg<0>, [2, 3], unit] {node = "resize_"} : (tensor<6xf32>) -> tensor<2x3xf32>
  %2 = torch.call "aten.neg_.default"(%1) args = [#sym.arg<0>] {node = "neg_"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1, %2 : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// A custom operator may write what it is given. One that returns something need not, and is not taken to write the input; neither is
// what could not be told apart from a copy afterwards, or weights.
// CHECK-LABEL: func.func @custom
// CHECK: %[[C:.*]] = torch.call "aten.clone.default"
// CHECK: %[[N:.*]] = torch.call "aten.neg.default"
// CHECK: %[[FLAT:.*]] = torch.call "aten.reshape.default"(%[[N]])
// CHECK: %[[W:.*]] = torch.constant
// CHECK: %[[ROW:.*]] = torch.call "aten.select.int"(%[[C]])
// CHECK: %[[R:.*]]:2 = torch.call "lib.op.default"(%[[ROW]], %{{.*}}, %[[N]]) {{.*}}updates = array<i64: 0>
// CHECK: %[[NEW:.*]] = torch.call "aten.select_scatter.default"(%[[C]], %[[R]]#1)
// CHECK: %[[WRITTEN:.*]]:2 = torch.call "lib.write.default"(%[[NEW]], %{{.*}}, %[[W]]) {{.*}}updates = array<i64: 0, 1>
// CHECK: return %[[R]]#0, %[[WRITTEN]]#0, %[[FLAT]], %[[WRITTEN]]#1
func.func @custom(%x: tensor<2x4xf32> {torch.name = "x"}) -> (tensor<4xf32>, tensor<2x4xf32>, tensor<8xf32>) {
  %0 = torch.call "aten.clone.default"(%x) args = [#sym.arg<0>, unit] {node = "clone"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = torch.call "aten.neg.default"(%x) args = [#sym.arg<0>] {node = "neg"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = torch.call "aten.reshape.default"(%1) args = [#sym.arg<0>, [8]] {node = "reshape"} : (tensor<2x4xf32>) -> tensor<8xf32>
  %w = torch.constant "w" = dense<1.0> : tensor<2xf32> {kind = "parameter"}
  %3 = torch.call "aten.select.int"(%0) args = [#sym.arg<0>, 0, 1] {node = "select"} : (tensor<2x4xf32>) -> tensor<4xf32>
  %4 = torch.call "lib.op.default"(%3, %x, %1) args = [#sym.arg<0>, [#sym.arg<1>, #sym.arg<2>]] {node = "op"} : (tensor<4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4xf32>
  torch.call "lib.write.default"(%0, %x, %w) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>] {node = "write"} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> ()
  return %4, %0, %2 : tensor<4xf32>, tensor<2x4xf32>, tensor<8xf32>
}

// -----

// An `out=` form that gives its tensors, which nobody else sees, another size is its functional form.
// CHECK-LABEL: func.func @resized_out
// CHECK: %[[S:.*]]:2 = torch.call "aten.sort.default"(%arg0) args = [#sym.arg<0>, 0, false] {node = "sort"}
// CHECK: return %[[S]]#0, %[[S]]#1
func.func @resized_out(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi64>) {
  %0 = torch.call "aten.empty.memory_format"() args = [[0], unit, unit, unit, unit, unit] {node = "values"} : () -> tensor<0xf32>
  %1 = torch.call "aten.empty.memory_format"() args = [[4], #sym.dtype<i64>, unit, unit, unit, unit] {node = "indices"} : () -> tensor<4xi64>
  %2:2 = torch.call "aten.sort.values"(%x, %0, %1) args = [#sym.arg<0>, 0, false, #sym.arg<1>, #sym.arg<2>] {node = "sort"} : (tensor<4xf32>, tensor<0xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>)
  return %2#0, %1 : tensor<4xf32>, tensor<4xi64>
}

// -----

// Of what lies in memory row by row, as export has recorded, `reshape` is a view: the input is written.
// CHECK-LABEL: func.func @reshaped
// CHECK-SAME: tensor<?x6xf32, #sym.shape<[s0, 6]>> {torch.mutates = "x", torch.mutates_kind = "input"})
// CHECK: %[[N:.*]] = torch.call "aten.neg.default"
// CHECK: %[[W:.*]] = torch.call "aten.view.default"(%[[N]]) args = [#sym.arg<0>, [#sym.expr<s0>, 6]]
// CHECK: return %[[N]], %[[W]]
func.func @reshaped(%x: tensor<?x6xf32, #sym.shape<[s0, 6]>> {torch.name = "x"}) -> tensor<?x2xf32, #sym.shape<[3*s0, 2]>> {
  %0 = torch.call "aten.reshape.default"(%x) args = [#sym.arg<0>, [-1, 2]] {node = "reshape", torch.strides = #sym.shape<[6, 1]>, torch.storage_offset = #sym.expr<0>} : (tensor<?x6xf32, #sym.shape<[s0, 6]>>) -> tensor<?x2xf32, #sym.shape<[3*s0, 2]>>
  %1 = torch.call "aten.neg_.default"(%0) args = [#sym.arg<0>] {node = "neg_"} : (tensor<?x2xf32, #sym.shape<[3*s0, 2]>>) -> tensor<?x2xf32, #sym.shape<[3*s0, 2]>>
  return %1 : tensor<?x2xf32, #sym.shape<[3*s0, 2]>>
}

// -----

// Windows beside each other are written element by element of theirs.
// CHECK-LABEL: func.func @windows
// CHECK: %[[N:.*]] = torch.call "aten.neg.default"
// CHECK: %[[A:.*]] = torch.call "aten.select.int"(%[[N]]) args = [#sym.arg<0>, -1, 0]
// CHECK: %[[B:.*]] = torch.call "aten.slice_scatter.default"(%arg0, %[[A]]) args = [#sym.arg<0>, #sym.arg<1>, 0, 0, 4, 3]
// CHECK: %[[C:.*]] = torch.call "aten.select.int"(%[[N]]) args = [#sym.arg<0>, -1, 1]
// CHECK: %[[D:.*]] = torch.call "aten.slice_scatter.default"(%[[B]], %[[C]]) args = [#sym.arg<0>, #sym.arg<1>, 0, 1, 5, 3]
// CHECK: return %[[D]]
func.func @windows(%x: tensor<6x2xf32> {torch.name = "x"}) {
  %0 = torch.call "aten.unfold.default"(%x) args = [#sym.arg<0>, -2, 2, 3] {node = "unfold"} : (tensor<6x2xf32>) -> tensor<2x2x2xf32>
  %1 = torch.call "aten.neg_.default"(%0) args = [#sym.arg<0>] {node = "neg_"} : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
  return
}

// -----

// A constant that the program writes is a buffer.
// CHECK: module attributes {torch.constants = [{name = "cache", type = tensor<2xf32>}]}
// CHECK-LABEL: func.func @constant
// CHECK-SAME: {torch.mutates = "cache", torch.mutates_kind = "buffer"}
// CHECK: torch.constant "cache" = dense<{{.*}}> : tensor<2xf32> {kind = "buffer", mutated}
module attributes {torch.constants = []} {
  func.func @constant(%x: tensor<2xf32>) {
    %0 = torch.constant "cache" = dense<0.0> : tensor<2xf32> {kind = "constant"}
    %1 = torch.call "aten.add_.Tensor"(%0, %x) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add_"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return
  }
}

// -----

// Of a custom operator whose schema is declared just what it says is written, the model's state included.
// CHECK-LABEL: func.func @declared
// CHECK: %[[C:.*]] = torch.call "aten.clone.default"
// CHECK: %[[B:.*]] = torch.constant "state"
// CHECK: %[[R:.*]]:2 = torch.call "lib.total.default"(%[[B]], %[[C]]) {{.*}}updates = array<i64: 0>
// CHECK: return %[[R]]#0, %[[C]], %[[R]]#1
func.func @declared(%x: tensor<4xf32> {torch.name = "x"}) -> (tensor<f32>, tensor<4xf32>) {
  %0 = torch.call "aten.clone.default"(%x) args = [#sym.arg<0>, unit] {node = "clone"} : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.constant "state" = dense<1.0> : tensor<4xf32> {kind = "buffer"}
  %1 = torch.call "lib.total.default"(%b, %0) args = [#sym.arg<0>, #sym.arg<1>] {node = "t", torch.symbol = "f", torch.writes = array<i64: 0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return %1, %0 : tensor<f32>, tensor<4xf32>
}
