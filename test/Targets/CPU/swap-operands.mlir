// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-swap-operands --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --cpu-set-target=cpu=x86-64-v4 --cpu-swap-operands --run-reference --split-input-file -o /dev/null

// The rows of the matrix lie next to each other: they become the columns.
// CHECK-LABEL: func.func @transposed_times_vector
// CHECK-SAME: %[[X:.*]]: tensor<100x64xf32>, %[[V:.*]]: tensor<100xf32>, %[[BIAS:.*]]: tensor<64xf32>
func.func @transposed_times_vector(%x: tensor<100x64xf32>, %v: tensor<100xf32>, %bias: tensor<64xf32>) -> tensor<64x1xf32> {
  // CHECK: kernel.contract batch [] m [1] n [64] k [100] perm [1, 0] lhs {
  // CHECK-NEXT: kernel.read %[[V]] (d0, d1, d2) -> (d2)
  // CHECK: } rhs {
  // CHECK-NEXT: kernel.read %[[X]] (d0, d1, d2) -> (d2, d1)
  // CHECK: } epilogue {
  // CHECK: kernel.read %[[BIAS]] (d0, d1, d2) -> (d1)
  %r = kernel.contract batch [] m [64] n [1] k [100] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<100x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %v (d0, d1, d2) -> (d2) : tensor<100xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    %c = kernel.read %bias (d0, d1, d2) -> (d0) : tensor<64xf32> -> f32
    %t = arith.addf %s, %c : f32
    kernel.yield %t : f32
  } : tensor<64x1xf32>
  return %r : tensor<64x1xf32>
}

// -----

// A row lies along the sum: its products are summed in vectors as it is.
// CHECK-LABEL: func.func @times_vector
func.func @times_vector(%x: tensor<64x100xf32>, %v: tensor<100xf32>) -> tensor<64x1xf32> {
  // CHECK: kernel.contract batch [] m [64] n [1] k [100] lhs
  %r = kernel.contract batch [] m [64] n [1] k [100] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x100xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %v (d0, d1, d2) -> (d2) : tensor<100xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x1xf32>
  return %r : tensor<64x1xf32>
}

// -----

// Many rows beside few columns, of a batch, with a permuted result; @packed has a constant on the right, which stays there.
// CHECK-LABEL: func.func @few_columns
func.func @few_columns(%x: tensor<2x64x10xf32>, %w: tensor<2x10x4xf32>) -> tensor<64x2x4xf32> {
  // CHECK: kernel.contract batch [2] m [4] n [64] k [10] perm [2, 0, 1] lhs
  %r = kernel.contract batch [2] m [64] n [4] k [10] perm [1, 0, 2] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x64x10xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<2x10x4xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x2x4xf32>
  return %r : tensor<64x2x4xf32>
}

// CHECK-LABEL: func.func @packed
func.func @packed(%x: tensor<64x10xf32>) -> tensor<64x4xf32> {
  %w = kernel.constant dense<1.0> : tensor<10x4xf32> : tensor<10x4xf32>
  // CHECK: kernel.contract batch [] m [64] n [4] k [10] lhs
  %r = kernel.contract batch [] m [64] n [4] k [10] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x10xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<10x4xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x4xf32>
  return %r : tensor<64x4xf32>
}

// -----

// Few rows are as well off in the lanes of narrow vectors.
// CHECK-LABEL: func.func @small
func.func @small(%x: tensor<8x10xf32>, %w: tensor<10x4xf32>) -> tensor<8x4xf32> {
  // CHECK: kernel.contract batch [] m [8] n [4] k [10] lhs
  %r = kernel.contract batch [] m [8] n [4] k [10] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x10xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<10x4xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

// A layout decides instead: @chosen is exchanged, and what is said of its right operand stays; @kept is not.
// CHECK-LABEL: func.func @chosen
func.func @chosen(%x: tensor<64x100xf32>, %w: tensor<32x100xf32>) -> tensor<64x32xf32> {
  // CHECK: kernel.contract batch [] m [32] n [64] k [100] perm [1, 0] attributes {cpu.layout = #cpu.layout<order = swapped, rhs = copied>} lhs
  %r = kernel.contract batch [] m [64] n [32] k [100] attributes {cpu.layout = #cpu.layout<order = swapped, rhs = copied>} lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x100xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<32x100xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x32xf32>
  return %r : tensor<64x32xf32>
}

// CHECK-LABEL: func.func @kept
func.func @kept(%x: tensor<100x64xf32>, %v: tensor<100xf32>) -> tensor<64x1xf32> {
  // CHECK: kernel.contract batch [] m [64] n [1] k [100]
  %r = kernel.contract batch [] m [64] n [1] k [100] attributes {cpu.layout = #cpu.layout<order = kept>} lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<100x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %v (d0, d1, d2) -> (d2) : tensor<100xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x1xf32>
  return %r : tensor<64x1xf32>
}

// -----

// Channels of images that lie in planes become few ones in planes: what puts them there is gone, what reads them reads planes.
// CHECK-LABEL: func.func @planes
// CHECK-SAME: %[[X:.*]]: tensor<2x10x9x16xf32>
func.func @planes(%x: tensor<2x10x9x16xf32>) -> (tensor<2x3x9x16xf32>, tensor<2x9x16xf32>) {
  %w = kernel.constant dense<2.0> : tensor<3x10xf32> : tensor<3x10xf32>
  // CHECK: %[[Y:.*]] = kernel.contract batch [] m [3] n [2, 9, 16] k [10] perm [1, 0, 2, 3] lhs {
  // CHECK: } rhs {
  // CHECK-NEXT: kernel.read %[[X]] (d0, d1, d2, d3, d4) -> (d1, d4, d2, d3)
  // CHECK: : tensor<2x3x9x16xf32>
  %r = kernel.contract batch [] m [2, 9, 16] n [3] k [10] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d4, d1, d2) : tensor<2x10x9x16xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d3, d4) : tensor<3x10xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<2x9x16x3xf32>
  // CHECK-NOT: kernel.map
  %planes = kernel.map {
    %a = kernel.read %r (d0, d1, d2, d3) -> (d0, d2, d3, d1) : tensor<2x9x16x3xf32> -> f32
    kernel.yield %a : f32
  } : tensor<2x3x9x16xf32>
  // CHECK: kernel.map
  // CHECK-NEXT: kernel.read %[[Y]] (d0, d1, d2) -> (d0, 1, d1, d2)
  %first = kernel.map {
    %a = kernel.read %r (d0, d1, d2) -> (d0, d1, d2, 1) : tensor<2x9x16x3xf32> -> f32
    %b = arith.negf %a : f32
    kernel.yield %b : f32
  } : tensor<2x9x16xf32>
  // CHECK: return %[[Y]],
  return %planes, %first : tensor<2x3x9x16xf32>, tensor<2x9x16xf32>
}
