// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-pad-windows | FileCheck %s
// RUN: kiln-opt %s --run-reference --cpu-set-target=cpu=x86-64-v4 --cpu-pad-windows --run-reference -o /dev/null

// Three channels: the padded image is computed once, and the windows read it in place.
// CHECK-LABEL: func.func @few_channels
// CHECK: %[[P:.*]] = kernel.map {
// CHECK: %[[IN:.*]] = kernel.inside (d0, d1, d2, d3) -> (d1 - 1, d2 - 1) bounds [s0, s1]
// CHECK: kernel.read %arg0 (d0, d1, d2, d3) -> (d0, d3, d1 - 1, d2 - 1) if %[[IN]]
// CHECK: tensor<1x?x?x3xf32, #sym.shape<[1, 2*(s0 ceildiv 2) + 1, 2*(s1 ceildiv 2) + 1, 3]>>
// CHECK: kernel.contract
// CHECK-NEXT: kernel.read %[[P]] (d0, d1, d2, d3, d4, d5, d6) -> (d0, 2*d1 + d4, 2*d2 + d5, d6)
func.func @few_channels(%x: tensor<1x3x?x?xf32, #sym.shape<[1, 3, s0, s1]>>, %w: tensor<64x3x3x3xf32>) -> tensor<1x?x?x64xf32, #sym.shape<[1, s0 ceildiv 2, s1 ceildiv 2, 64]>>
    attributes {sym.symbols = {s0 = {min = 3, max = 100}, s1 = {min = 3, max = 100}}} {
  %y = kernel.contract batch [] m [1, s0 ceildiv 2, s1 ceildiv 2] n [64] k [3, 3, 3] lhs {
    %z = arith.constant 0.0 : f32
    %in = kernel.inside (d0, d1, d2, d3, d4, d5, d6) -> (2*d1 + d4 - 1, 2*d2 + d5 - 1) bounds [s0, s1]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6) -> (d0, d6, 2*d1 + d4 - 1, 2*d2 + d5 - 1) if %in else(%z : f32) : tensor<1x3x?x?xf32, #sym.shape<[1, 3, s0, s1]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5, d6) -> (d3, d6, d4, d5) : tensor<64x3x3x3xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<1x?x?x64xf32, #sym.shape<[1, s0 ceildiv 2, s1 ceildiv 2, 64]>>
  return %y : tensor<1x?x?x64xf32, #sym.shape<[1, s0 ceildiv 2, s1 ceildiv 2, 64]>>
}

// The same image of known size.
// CHECK-LABEL: func.func @static
// CHECK: kernel.map
// CHECK: tensor<1x21x31x3xf32>
func.func @static(%x: tensor<1x3x20x30xf32>, %w: tensor<64x3x3x3xf32>) -> tensor<1x10x15x64xf32> {
  %y = kernel.contract batch [] m [1, 10, 15] n [64] k [3, 3, 3] lhs {
    %z = arith.constant 0.0 : f32
    %in = kernel.inside (d0, d1, d2, d3, d4, d5, d6) -> (2*d1 + d4 - 1, 2*d2 + d5 - 1) bounds [20, 30]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6) -> (d0, d6, 2*d1 + d4 - 1, 2*d2 + d5 - 1) if %in else(%z : f32) : tensor<1x3x20x30xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5, d6) -> (d3, d6, d4, d5) : tensor<64x3x3x3xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<1x10x15x64xf32>
  return %y : tensor<1x10x15x64xf32>
}

// With few columns, too, tasks copy what they need: three channels are no vector. With one column they do not.
// CHECK-LABEL: func.func @few_columns
// CHECK: kernel.contract batch [] m [1, 10, 15] n [4]
// CHECK-NEXT: arith.constant
// CHECK-NEXT: kernel.inside
// CHECK: %[[P:.*]] = kernel.map
// CHECK: kernel.contract batch [] m [1, 10, 15] n []
// CHECK-NEXT: kernel.read %[[P]]
func.func @few_columns(%x: tensor<1x3x20x30xf32>, %w: tensor<4x3x3x3xf32>) -> (tensor<1x10x15x4xf32>, tensor<1x10x15xf32>) {
  %y = kernel.contract batch [] m [1, 10, 15] n [4] k [3, 3, 3] lhs {
    %z = arith.constant 0.0 : f32
    %in = kernel.inside (d0, d1, d2, d3, d4, d5, d6) -> (2*d1 + d4 - 1, 2*d2 + d5 - 1) bounds [20, 30]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6) -> (d0, d6, 2*d1 + d4 - 1, 2*d2 + d5 - 1) if %in else(%z : f32) : tensor<1x3x20x30xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5, d6) -> (d3, d6, d4, d5) : tensor<4x3x3x3xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<1x10x15x4xf32>
  %u = kernel.contract batch [] m [1, 10, 15] n [] k [3, 3, 3] lhs {
    %z = arith.constant 0.0 : f32
    %in = kernel.inside (d0, d1, d2, d3, d4, d5) -> (2*d1 + d3 - 1, 2*d2 + d4 - 1) bounds [20, 30]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0, d5, 2*d1 + d3 - 1, 2*d2 + d4 - 1) if %in else(%z : f32) : tensor<1x3x20x30xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (0, d5, d3, d4) : tensor<4x3x3x3xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<1x10x15xf32>
  return %y, %u : tensor<1x10x15x4xf32>, tensor<1x10x15xf32>
}

// A channel for each column.
// CHECK-LABEL: func.func @depthwise
// CHECK-NOT: kernel.map
func.func @depthwise(%x: tensor<20x30x32xf32>, %w: tensor<32x1x3x3xf32>) -> tensor<32x20x30x1xf32> {
  %y = kernel.contract batch [32] m [20, 30] n [1] k [3, 3] lhs {
    %z = arith.constant 0.0 : f32
    %in = kernel.inside (d0, d1, d2, d3, d4, d5) -> (d1 + d4 - 1, d2 + d5 - 1) bounds [20, 30]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d1 + d4 - 1, d2 + d5 - 1, d0) if %in else(%z : f32) : tensor<20x30x32xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d0, d3, d4, d5) : tensor<32x1x3x3xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<32x20x30x1xf32>
  return %y : tensor<32x20x30x1xf32>
}

// Windows that read in place as it is.
// CHECK-LABEL: func.func @as_it_is
// CHECK: kernel.map
// CHECK-NOT: kernel.map
func.func @as_it_is(%x: tensor<?x?x32xf32, #sym.shape<[s0, s1, 32]>>, %w: tensor<64x3x3x32xf32>, %v: tensor<8x3x3x32xf32>) -> (tensor<?x?x64xf32, #sym.shape<[s0, s1, 64]>>, tensor<?x?x8xf32, #sym.shape<[s0 - 2, s1 - 2, 8]>>)
    attributes {sym.symbols = {s0 = {min = 3, max = 100}, s1 = {min = 3, max = 100}}} {
  %y = kernel.contract batch [] m [s0, s1] n [64] k [3, 3, 32] lhs {
    %z = arith.constant 0.0 : f32
    %in = kernel.inside (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1) bounds [s0, s1]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1, d5) if %in else(%z : f32) : tensor<?x?x32xf32, #sym.shape<[s0, s1, 32]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<64x3x3x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<?x?x64xf32, #sym.shape<[s0, s1, 64]>>
  %u = kernel.contract batch [] m [s0 - 2, s1 - 2] n [8] k [3, 3, 32] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3, d1 + d4, d5) : tensor<?x?x32xf32, #sym.shape<[s0, s1, 32]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %v (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<8x3x3x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<?x?x8xf32, #sym.shape<[s0 - 2, s1 - 2, 8]>>
  return %y, %u : tensor<?x?x64xf32, #sym.shape<[s0, s1, 64]>>, tensor<?x?x8xf32, #sym.shape<[s0 - 2, s1 - 2, 8]>>
}

// A layout decides instead: the copy of an image of known size has its channels last, and zeros around it; @keep copies nothing.
// CHECK-LABEL: func.func @copy_image
// CHECK: %[[P:.*]] = kernel.map {
// CHECK: kernel.read %arg0 (d0, d1, d2, d3) -> (d0, d3, d1 - 1, d2 - 1) if
// CHECK: } : tensor<1x22x32x3xf32>
// CHECK: kernel.contract
// CHECK: kernel.read %[[P]] (d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d4, d2 + d5, d6)
func.func @copy_image(%x: tensor<1x3x20x30xf32>, %w: tensor<64x3x3x3xf32>) -> tensor<1x20x30x64xf32> {
  %y = kernel.contract batch [] m [1, 20, 30] n [64] k [3, 3, 3] attributes {cpu.layout = #cpu.layout<lhs = copied>} lhs {
    %z = arith.constant 0.0 : f32
    %in = kernel.inside (d0, d1, d2, d3, d4, d5, d6) -> (d1 + d4 - 1, d2 + d5 - 1) bounds [20, 30]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6) -> (d0, d6, d1 + d4 - 1, d2 + d5 - 1) if %in else(%z : f32) : tensor<1x3x20x30xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5, d6) -> (d3, d6, d4, d5) : tensor<64x3x3x3xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<1x20x30x64xf32>
  return %y : tensor<1x20x30x64xf32>
}

// Rows of a transposed matrix come in order, with what is computed of them.
// CHECK-LABEL: func.func @copy_rows
// CHECK: %[[P:.*]] = kernel.map {
// CHECK: %[[A:.*]] = kernel.read %arg0 (d0, d1) -> (d1, d0)
// CHECK: %[[E:.*]] = arith.mulf %[[A]], %[[A]]
// CHECK: } : tensor<64x100xf32>
// CHECK: kernel.read %[[P]] (d0, d1, d2) -> (d0, d2)
func.func @copy_rows(%x: tensor<100x64xf32>, %w: tensor<100x32xf32>) -> tensor<64x32xf32> {
  %r = kernel.contract batch [] m [64] n [32] k [100] attributes {cpu.layout = #cpu.layout<lhs = copied>} lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<100x64xf32> -> f32
    %e = arith.mulf %a, %a : f32
    kernel.yield %e : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<100x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x32xf32>
  return %r : tensor<64x32xf32>
}

// CHECK-LABEL: func.func @keep
// CHECK-NOT: kernel.map
func.func @keep(%x: tensor<1x3x?x?xf32, #sym.shape<[1, 3, s0, s1]>>, %w: tensor<64x3x3x3xf32>) -> tensor<1x?x?x64xf32, #sym.shape<[1, s0 ceildiv 2, s1 ceildiv 2, 64]>>
    attributes {sym.symbols = {s0 = {min = 3, max = 100}, s1 = {min = 3, max = 100}}} {
  %y = kernel.contract batch [] m [1, s0 ceildiv 2, s1 ceildiv 2] n [64] k [3, 3, 3] attributes {cpu.layout = #cpu.layout<lhs = kept>} lhs {
    %z = arith.constant 0.0 : f32
    %in = kernel.inside (d0, d1, d2, d3, d4, d5, d6) -> (2*d1 + d4 - 1, 2*d2 + d5 - 1) bounds [s0, s1]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6) -> (d0, d6, 2*d1 + d4 - 1, 2*d2 + d5 - 1) if %in else(%z : f32) : tensor<1x3x?x?xf32, #sym.shape<[1, 3, s0, s1]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5, d6) -> (d3, d6, d4, d5) : tensor<64x3x3x3xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<1x?x?x64xf32, #sym.shape<[1, s0 ceildiv 2, s1 ceildiv 2, 64]>>
  return %y : tensor<1x?x?x64xf32, #sym.shape<[1, s0 ceildiv 2, s1 ceildiv 2, 64]>>
}
