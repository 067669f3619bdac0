// RUN: kiln-opt %s --torch-normalize-floor-div --split-input-file | FileCheck %s

// Ranges decide: (s0*s1) floordiv s1 is s0 where s1 is positive, and a nested division is one.
module attributes {sym.symbols = {s0 = {min = 0 : i64}, s1 = {min = 1 : i64}}} {
  // CHECK: func.func private @ranges(
  // CHECK-SAME: tensor<?xf32, #sym.shape<[s0]>>
  // CHECK-SAME: tensor<?xf32, #sym.shape<[s0 floordiv (8*s1)]>>
  // CHECK-SAME: tensor<0xf32>
  func.func private @ranges(tensor<?xf32, #sym.shape<[(s0*s1) floordiv s1]>>,
                            tensor<?xf32, #sym.shape<[(s0 floordiv 8) floordiv s1]>>,
                            tensor<?xf32, #sym.shape<[(s0 mod s1) floordiv s1]>>)
}

// -----

// Every way to round up is one.
module attributes {sym.symbols = {s0 = {min = 0 : i64}, s1 = {min = 1 : i64}}} {
  // CHECK: func.func private @ceil(
  // CHECK-SAME: tensor<?xf32, #sym.shape<[(s0 - 1) floordiv s1 + 1]>>, tensor<?xf32, #sym.shape<[(s0 - 1) floordiv s1 + 1]>>, tensor<?xf32, #sym.shape<[(s0 - 1) floordiv s1 + 1]>>
  func.func private @ceil(tensor<?xf32, #sym.shape<[(s0 + s1 - 1) floordiv s1]>>,
                          tensor<?xf32, #sym.shape<[-(s0 floordiv (-s1))]>>,
                          tensor<?xf32, #sym.shape<[s0 ceildiv s1]>>)
}

// -----

// What becomes a number is part of the plain shape, in types of values and of functions alike.
module attributes {sym.symbols = {s0 = {min = 1 : i64}}} {
  // CHECK: func.func @numbers(
  // CHECK-SAME: %[[X:.*]]: tensor<8x4xf32>) -> tensor<8x4xf32>
  func.func @numbers(%x: tensor<?x4xf32, #sym.shape<[(8*s0) floordiv s0, 4]>>)
      -> tensor<?x4xf32, #sym.shape<[(8*s0) floordiv s0, 4]>> {
    // CHECK: torch.call "aten.relu.default"(%[[X]]) {{.*}} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %0 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "relu"} : (tensor<?x4xf32, #sym.shape<[(8*s0) floordiv s0, 4]>>)
        -> tensor<?x4xf32, #sym.shape<[(8*s0) floordiv s0, 4]>>
    return %0 : tensor<?x4xf32, #sym.shape<[(8*s0) floordiv s0, 4]>>
  }
}

// -----

// s1 may be 0 or negative: nothing is known.
// CHECK: func.func private @unknown
// CHECK-SAME: #sym.shape<[(s0*s1) floordiv s1]>
func.func private @unknown(tensor<?xf32, #sym.shape<[(s0*s1) floordiv s1]>>)
