// RUN: kiln-opt %s --kernel-fold-views --kernel-simplify-indices --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --kernel-fold-views --kernel-simplify-indices --run-reference --split-input-file -o /dev/null

// A reshape and its inverse cancel.
// CHECK-LABEL: func.func @reshape_back
// CHECK-SAME: %[[X:.*]]: tensor<128x768xf32>
// CHECK: kernel.read %[[X]] (d0, d1) -> (d0, d1)
// CHECK-NOT: kernel.map
func.func @reshape_back(%x: tensor<128x768xf32>) -> tensor<128x768xf32> {
  %v = kernel.map {
    %e = kernel.read %x (d0, d1, d2) -> (d0, 64*d1 + d2) : tensor<128x768xf32> -> f32
    kernel.yield %e : f32
  } : tensor<128x12x64xf32>
  %w = kernel.map {
    %e = kernel.read %v (d0, d1) -> (d0, d1 floordiv 64, d1 mod 64) : tensor<128x12x64xf32> -> f32
    kernel.yield %e : f32
  } : tensor<128x768xf32>
  return %w : tensor<128x768xf32>
}

// -----

// The mask of the reader guards the read of what is viewed.
// CHECK-LABEL: func.func @masked
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>
// CHECK: %[[IN:.*]] = kernel.inside (d0, d1) -> (d0 - 1) bounds [8]
// CHECK: %[[V:.*]] = kernel.read %[[X]] (d0, d1) -> (d1, d0 - 1) if %[[IN]]
// CHECK: arith.select %[[IN]], %[[V]]
func.func @masked(%x: tensor<4x8xf32>) -> tensor<10x4xf32> {
  %t = kernel.map {
    %e = kernel.read %x (d0, d1) -> (d1, d0) : tensor<4x8xf32> -> f32
    kernel.yield %e : f32
  } : tensor<8x4xf32>
  %p = kernel.map {
    %one = arith.constant 1.0 : f32
    %in = kernel.inside (d0, d1) -> (d0 - 1, d1) bounds [8, 4]
    %e = kernel.read %t (d0, d1) -> (d0 - 1, d1) if %in else(%one : f32) : tensor<8x4xf32> -> f32
    kernel.yield %e : f32
  } : tensor<10x4xf32>
  return %p : tensor<10x4xf32>
}

// -----

// A gather's index is data: the composed read takes it along.
// CHECK-LABEL: func.func @gather
// CHECK-SAME: %[[T:.*]]: tensor<8x100xf32>
// CHECK: %[[I:.*]] = kernel.read %{{.*}} (d0, d1) -> (d0)
// CHECK: kernel.read %[[T]] (d0, d1, d2) -> (d1, d2) values(%[[I]])
func.func @gather(%table: tensor<8x100xf32>, %ids: tensor<5xi64>) -> tensor<5x8xf32> {
  %t = kernel.map {
    %e = kernel.read %table (d0, d1) -> (d1, d0) : tensor<8x100xf32> -> f32
    kernel.yield %e : f32
  } : tensor<100x8xf32>
  %g = kernel.map {
    %i = kernel.read %ids (d0, d1) -> (d0) : tensor<5xi64> -> i64
    %e = kernel.read %t (d0, d1, d2) -> (d2, d1) values(%i) : tensor<100x8xf32> -> f32
    kernel.yield %e : f32
  } : tensor<5x8xf32>
  return %g : tensor<5x8xf32>
}

// -----

// Symbolic sizes cancel as well.
// CHECK-LABEL: func.func @symbolic
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d0, d1)
module attributes {sym.symbols = {s0 = {min = 1 : i64}, s1 = {min = 1 : i64}}} {
  func.func @symbolic(%x: tensor<?x?xf32, #sym.shape<[s0, 4*s1]>>) -> tensor<?x?xf32, #sym.shape<[s0, 4*s1]>> {
    %v = kernel.map {
      %e = kernel.read %x (d0, d1, d2) -> (d0, d1*s1 + d2) : tensor<?x?xf32, #sym.shape<[s0, 4*s1]>> -> f32
      kernel.yield %e : f32
    } : tensor<?x4x?xf32, #sym.shape<[s0, 4, s1]>>
    %w = kernel.map {
      %e = kernel.read %v (d0, d1) -> (d0, d1 floordiv s1, d1 mod s1) : tensor<?x4x?xf32, #sym.shape<[s0, 4, s1]>> -> f32
      kernel.yield %e : f32
    } : tensor<?x?xf32, #sym.shape<[s0, 4*s1]>>
    return %w : tensor<?x?xf32, #sym.shape<[s0, 4*s1]>>
  }
}

// -----

// A slice that goes away was all that an index could be in; a transposition is no less.
// CHECK-LABEL: func.func @gather_of_slice
// CHECK: %[[I:.*]] = kernel.read %{{.*}} (d0) -> (d0) : tensor<5xi64> -> i64
// CHECK: %[[READ:.*]] = kernel.read %{{.*}} (d0, d1) -> (d1 + 2) values(%[[I]]) : tensor<10xf32> -> f32
// CHECK: %[[IN:.*]] = kernel.inside (d0, d1) -> (d1) bounds [3] values(%[[I]])
// CHECK: kernel.expect %[[READ]] if %[[IN]], "index out of range" code 1 : f32
func.func @gather_of_slice(%x: tensor<10xf32>, %ids: tensor<5xi64>) -> tensor<5xf32> {
  %v = kernel.map {
    %e = kernel.read %x (d0) -> (d0 + 2) : tensor<10xf32> -> f32
    kernel.yield %e : f32
  } : tensor<3xf32>
  %w = kernel.map {
    %i = kernel.read %ids (d0) -> (d0) : tensor<5xi64> -> i64
    %e = kernel.read %v (d0, d1) -> (d1) values(%i) : tensor<3xf32> -> f32
    kernel.yield %e : f32
  } : tensor<5xf32>
  return %w : tensor<5xf32>
}
