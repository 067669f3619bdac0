// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-winograd --remarks-filter=cpu-winograd --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s
// RUN: not kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-winograd=tile=3 --remarks-filter=cpu-winograd --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s --check-prefix=TILE
// TILE: error: tiles of Winograd's convolutions are of 2 or 4 rows, not 3

// CHECK: [Missed] NotWinograd
// CHECK-SAME: Reason="it has a stride or a dilation", Remark="convolution not made of fewer multiplications", Where="node 'stride' (model.py:3)"
func.func @stride(%x: tensor<41x41x64xf32>) -> tensor<20x20x64xf32> {
  %w = kernel.constant dense<0.5> : tensor<64x3x3x64xf32> : tensor<64x3x3x64xf32>
  %y = kernel.contract batch [] m [20, 20] n [64] k [3, 3, 64] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (2*d0 + d3, 2*d1 + d4, d5) : tensor<41x41x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<64x3x3x64xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<20x20x64xf32> loc("stride"("model.py":3:0))
  return %y : tensor<20x20x64xf32>
}

// CHECK: [Missed] NotWinograd
// CHECK-SAME: Reason="its windows are not of 3 x 3 pixels", Remark="convolution not made of fewer multiplications", Where="node 'wide' (model.py:3)"
func.func @wide(%x: tensor<24x24x64xf32>) -> tensor<20x20x64xf32> {
  %w = kernel.constant dense<0.5> : tensor<64x5x5x64xf32> : tensor<64x5x5x64xf32>
  %y = kernel.contract batch [] m [20, 20] n [64] k [5, 5, 64] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3, d1 + d4, d5) : tensor<24x24x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<64x5x5x64xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<20x20x64xf32> loc("wide"("model.py":3:0))
  return %y : tensor<20x20x64xf32>
}

// CHECK: [Missed] NotWinograd
// CHECK-SAME: Reason="it has groups", Remark="convolution not made of fewer multiplications", Where="node 'groups' (model.py:3)"
func.func @groups(%x: tensor<22x22x2x64xf32>) -> tensor<2x20x20x64xf32> {
  %w = kernel.constant dense<0.5> : tensor<2x64x3x3x64xf32> : tensor<2x64x3x3x64xf32>
  %y = kernel.contract batch [2] m [20, 20] n [64] k [3, 3, 64] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6) -> (d1 + d4, d2 + d5, d0, d6) : tensor<22x22x2x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5, d6) -> (d0, d3, d4, d5, d6) : tensor<2x64x3x3x64xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<2x20x20x64xf32> loc("groups"("model.py":3:0))
  return %y : tensor<2x20x20x64xf32>
}

// CHECK: [Missed] NotWinograd
// CHECK-SAME: Reason="its image does not have channels last", Remark="convolution not made of fewer multiplications", Where="node 'first' (model.py:3)"
func.func @first(%x: tensor<64x22x22xf32>) -> tensor<20x20x64xf32> {
  %w = kernel.constant dense<0.5> : tensor<64x3x3x64xf32> : tensor<64x3x3x64xf32>
  %y = kernel.contract batch [] m [20, 20] n [64] k [3, 3, 64] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d5, d0 + d3, d1 + d4) : tensor<64x22x22xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<64x3x3x64xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<20x20x64xf32> loc("first"("model.py":3:0))
  return %y : tensor<20x20x64xf32>
}

// Weights of so many channels take longer to read than they are used.
// CHECK: [Missed] NotWinograd
// CHECK-SAME: Reason="they would take longer", Remark="convolution not made of fewer multiplications", Where="node 'small' (model.py:3)"
func.func @small(%x: tensor<5x5x512xf32>) -> tensor<3x3x512xf32> {
  %w = kernel.constant dense<0.5> : tensor<512x3x3x512xf32> : tensor<512x3x3x512xf32>
  %y = kernel.contract batch [] m [3, 3] n [512] k [3, 3, 512] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3, d1 + d4, d5) : tensor<5x5x512xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<512x3x3x512xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<3x3x512xf32> loc("small"("model.py":3:0))
  return %y : tensor<3x3x512xf32>
}

// CHECK: [Passed] Winograd
// CHECK-SAME: Remark="convolution made of products of tiles of 4 x 4 pixels"
func.func @made(%x: tensor<22x22x64xf32>) -> tensor<20x20x64xf32> {
  %w = kernel.constant dense<0.5> : tensor<64x3x3x64xf32> : tensor<64x3x3x64xf32>
  %y = kernel.contract batch [] m [20, 20] n [64] k [3, 3, 64] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3, d1 + d4, d5) : tensor<22x22x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<64x3x3x64xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<20x20x64xf32> loc("made"("model.py":3:0))
  return %y : tensor<20x20x64xf32>
}
