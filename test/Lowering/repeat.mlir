// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Counted, defined, written; coordinates are divisions of the place.
// CHECK-LABEL: func.func @nonzero
module attributes {sym.symbols = {u0 = {max = 12, min = 0}}} {
  func.func @nonzero(%x: tensor<3x4xf32>) -> tensor<?x2xi64, #sym.shape<[u0, 2]>> {
    // CHECK: kernel.reduce [12]
    // CHECK: kernel.define "u0" from %{{.*}} : tensor<i64>
    // CHECK: %[[PLACES:.*]] = kernel.repeat total 12 chunk 12 count {
    // CHECK: arith.cmpf une
    // CHECK: kernel.yield %{{.*}} : i1
    // CHECK: } start {
    // CHECK: } : tensor<?xi64, #sym.shape<[u0]>>
    // CHECK: kernel.read %[[PLACES]] (d0, d1) -> (d0)
    // CHECK: arith.divsi
    %0 = torch.call "aten.nonzero.default"(%x) args = [#sym.arg<0>] {node = "nonzero", defines = ["u0"]} : (tensor<3x4xf32>) -> tensor<?x2xi64, #sym.shape<[u0, 2]>>
    return %0 : tensor<?x2xi64, #sym.shape<[u0, 2]>>
  }
}

// -----

// Where the program says how many there are, a size of its results has the number.
// CHECK-LABEL: func.func @fixed
module attributes {sym.symbols = {u0 = {max = 1, min = 1}}} {
  func.func @fixed(%x: tensor<1xf32>) -> tensor<1x1xi64> {
    // CHECK: kernel.reduce [1]
    // CHECK: arith.cmpi eq
    // CHECK: kernel.check %{{.*}}, "expected a size of 1
    // CHECK: kernel.define "u0" = 1
    %0 = torch.call "aten.nonzero.default"(%x) args = [#sym.arg<0>] {node = "nonzero", defines = ["u0"]} : (tensor<1xf32>) -> tensor<1x1xi64>
    return %0 : tensor<1x1xi64>
  }
}

// -----

// Many elements are counted in at most 64 chunks. The dims of a mask are read as one.
// CHECK-LABEL: func.func @mask
module attributes {sym.symbols = {s0 = {min = 0}, u0 = {min = 0}}} {
  func.func @mask(%x: tensor<?x100x7xf32, #sym.shape<[s0, 100, 7]>>, %m: tensor<?x100xi1, #sym.shape<[s0, 100]>>)
      -> tensor<?x7xf32, #sym.shape<[u0, 7]>> {
    // CHECK: kernel.repeat total 100*s0 chunk max({{.*}}, 16384) count {
    %0 = torch.call "aten.index.Tensor"(%x, %m) args = [#sym.arg<0>, [#sym.arg<1>]] {node = "index", defines = ["u0"]} : (tensor<?x100x7xf32, #sym.shape<[s0, 100, 7]>>, tensor<?x100xi1, #sym.shape<[s0, 100]>>) -> tensor<?x7xf32, #sym.shape<[u0, 7]>>
    return %0 : tensor<?x7xf32, #sym.shape<[u0, 7]>>
  }
}

// -----

// The same mask again: its size is known and must be the same.
// CHECK-LABEL: func.func @again
module attributes {sym.symbols = {u0 = {max = 4, min = 0}}} {
  func.func @again(%x: tensor<4xf32>, %m: tensor<4xi1>) -> tensor<?xf32, #sym.shape<[u0]>> {
    // CHECK: kernel.index () -> (u0)
    // CHECK: kernel.check %{{.*}}, "expected a size of u0
    %0 = torch.call "aten.masked_select.default"(%x, %m) args = [#sym.arg<0>, #sym.arg<1>] {node = "select"} : (tensor<4xf32>, tensor<4xi1>) -> tensor<?xf32, #sym.shape<[u0]>>
    return %0 : tensor<?xf32, #sym.shape<[u0]>>
  }
}

// -----

// CHECK-LABEL: func.func @repeat_interleave
module attributes {sym.symbols = {u0 = {min = 0}}} {
  func.func @repeat_interleave(%x: tensor<2x3xf32>, %r: tensor<3xi64>) -> tensor<2x?xf32, #sym.shape<[2, u0]>> {
    // CHECK: kernel.check %{{.*}}, "repeats can not be negative
    // CHECK: kernel.repeat total 3 chunk 3 count {
    // CHECK: kernel.yield %{{.*}} : i64
    // CHECK: kernel.read %arg0 (d0, d1, d2) -> (d0, d2) values(%{{.*}})
    %0 = torch.call "aten.repeat_interleave.self_Tensor"(%x, %r) args = [#sym.arg<0>, #sym.arg<1>, 1, unit] {node = "repeat", defines = ["u0"]} : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<2x?xf32, #sym.shape<[2, u0]>>
    return %0 : tensor<2x?xf32, #sym.shape<[2, u0]>>
  }
}
