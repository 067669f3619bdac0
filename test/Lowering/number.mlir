// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// A number that comes into being defines its symbol; a 0-d tensor is read where it is.
// CHECK-LABEL: func.func @item
module attributes {sym.symbols = {u0 = {}, u1 = {}, u2 = {max = 1, min = 0}}} {
  func.func @item(%x: tensor<i64>, %y: tensor<1x1xi32>, %b: tensor<i1>, %f: tensor<1xf32>)
      -> (tensor<i64>, tensor<i64>, tensor<f64>) {
    // CHECK: kernel.define "u0" from %arg0 : tensor<i64>
    %0 = torch.call "aten.item.default"(%x) args = [#sym.arg<0>] {node = "a", defines = ["u0"], values = [#sym.expr<u0>]} : (tensor<i64>) -> tensor<i64>
    // CHECK: kernel.read %arg1 () -> (0, 0)
    // CHECK: arith.extsi
    // CHECK: kernel.define "u1" from %{{.*}} : tensor<i64>
    %1 = torch.call "aten.item.default"(%y) args = [#sym.arg<0>] {node = "b", defines = ["u1"], values = [#sym.expr<u1>]} : (tensor<1x1xi32>) -> tensor<i64>
    // CHECK: kernel.read %arg2 () -> ()
    // CHECK: arith.extui
    // CHECK: kernel.define "u2" from %{{.*}} : tensor<i64>
    %2 = torch.call "aten.item.default"(%b) args = [#sym.arg<0>] {node = "c", defines = ["u2"], values = [#sym.expr<u2>]} : (tensor<i1>) -> tensor<i1>
    // CHECK: kernel.read %arg3 () -> (0)
    // CHECK: arith.extf
    // CHECK-NOT: kernel.define
    %3 = torch.call "aten.item.default"(%f) args = [#sym.arg<0>] {node = "d"} : (tensor<1xf32>) -> tensor<f64>
    return %0, %1, %3 : tensor<i64>, tensor<i64>, tensor<f64>
  }
}

// -----

// What is divided by is checked; floats round toward minus infinity.
// CHECK-LABEL: func.func @divide
func.func @divide(%x: tensor<f64>) -> tensor<f64> {
  // CHECK: arith.cmpf une
  // CHECK: kernel.check %{{.*}}, "division by zero (node 'div')" : tensor<i1>
  %0 = torch.call "_operator.floordiv"(%x) args = [7, #sym.scalar<0>] {node = "div"} : (tensor<f64>) -> tensor<f64> loc("div")
  return %0 : tensor<f64>
}

// -----

// Where a view starts in memory.
// CHECK-LABEL: func.func @offset
module attributes {sym.symbols = {s0 = {min = 4}, u0 = {}}} {
  func.func @offset(%x: tensor<?x8xf32, #sym.shape<[s0, 8]>>) -> tensor<i64> {
    %0 = torch.call "aten.slice.Tensor"(%x) args = [#sym.arg<0>, 0, 3, unit, 1] {node = "slice"} : (tensor<?x8xf32, #sym.shape<[s0, 8]>>) -> tensor<?x8xf32, #sym.shape<[s0 - 3, 8]>>
    %1 = torch.call "aten.select.int"(%0) args = [#sym.arg<0>, 1, 5] {node = "select"} : (tensor<?x8xf32, #sym.shape<[s0 - 3, 8]>>) -> tensor<?xf32, #sym.shape<[s0 - 3]>>
    // CHECK: arith.constant 29 : i64
    // CHECK: kernel.define "u0"
    %2 = torch.call "aten.sym_storage_offset.default"(%1) args = [#sym.arg<0>] {node = "offset", defines = ["u0"], values = [#sym.expr<u0>]} : (tensor<?xf32, #sym.shape<[s0 - 3]>>) -> tensor<i64>
    return %2 : tensor<i64>
  }
}

// -----

// The number of elements, where its expression is not known.
// CHECK-LABEL: func.func @numel
module attributes {sym.symbols = {s0 = {min = 4}, v0 = {}}} {
  func.func @numel(%x: tensor<?x?xf32, #sym.shape<[s0, s0 floordiv 2]>>) -> tensor<i64> {
    // CHECK: kernel.index () -> (s0*(s0 floordiv 2))
    // CHECK: kernel.define "v0"
    %0 = torch.call "aten.sym_numel.default"(%x) args = [#sym.arg<0>] {node = "numel", defines = ["v0"], values = [#sym.expr<v0>]} : (tensor<?x?xf32, #sym.shape<[s0, s0 floordiv 2]>>) -> tensor<i64>
    return %0 : tensor<i64>
  }
}

// -----

// PyTorch takes a number for any tensor: it is one without dims.
// CHECK-LABEL: func.func @number_as_tensor
// CHECK: %[[HALF:.*]] = kernel.map {
// CHECK-NEXT: arith.constant 5.000000e-01 : f64
// CHECK: kernel.map {
// CHECK-NEXT: kernel.read %[[HALF]] () -> () : tensor<f64> -> f64
// CHECK-NEXT: arith.truncf %{{.*}} : f64 to f32
// CHECK: %[[THREE:.*]] = kernel.map {
// CHECK-NEXT: arith.constant 3 : i64
// CHECK: kernel.read %[[THREE]] (d0) -> () : tensor<i64> -> i64
// CHECK: arith.constant 1.500000e+00 : f64
func.func @number_as_tensor() -> (tensor<f32>, tensor<1xi64>, tensor<3xf32>, tensor<f32>, tensor<i1>, tensor<f64>) {
  %0 = torch.call "aten._to_copy.default"() args = [5.000000e-01, #sym.dtype<f32>, unit, unit, unit, false, unit] {node = "a"} : () -> tensor<f32>
  %1 = torch.call "aten.view.default"() args = [3, [1]] {node = "b"} : () -> tensor<1xi64>
  %2 = torch.call "aten.expand.default"(%0) args = [#sym.arg<0>, [3], false] {node = "c"} : (tensor<f32>) -> tensor<3xf32>
  %3 = torch.call "aten.to.dtype"() args = [2, #sym.dtype<f32>, false, false, unit] {node = "d"} : () -> tensor<f32>
  %4 = torch.call "aten.isnan.default"() args = [1.0] {node = "e"} : () -> tensor<i1>
  %5 = torch.call "aten.sum.default"() args = [1.5, unit] {node = "f"} : () -> tensor<f64>
  return %0, %1, %2, %3, %4, %5 : tensor<f32>, tensor<1xi64>, tensor<3xf32>, tensor<f32>, tensor<i1>, tensor<f64>
}
