// RUN: kiln-opt %s --cpu-set-target='cpu=x86-64-v4 tune=l1=8192,l2=32768' --cpu-cut-windows | FileCheck %s
// RUN: kiln-opt %s --cpu-set-target='cpu=x86-64-v4 tune=l1=8192,l2=32768' --cpu-cut-windows --cpu-pack-contracts | FileCheck %s --check-prefix=PACKED
// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-cut-windows | FileCheck %s --check-prefix=LARGE
// RUN: kiln-opt %s --run-reference --cpu-set-target='cpu=x86-64-v4 tune=l1=8192,l2=32768' --cpu-cut-windows --cpu-pack-contracts --run-reference -o /dev/null

// Three rows of an image of ten columns and 512 channels take 60 kB: the blocks are the outermost k dim, for
// the panels, too.
// CHECK-LABEL: func.func @wide
// CHECK: kernel.contract batch [] m [4, 8] n [16] k [2, 3, 3, 256] lhs
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5, d6) -> (d0 + d4 - 1, d1 + d5 - 1, 256*d3 + d6) if
// CHECK: kernel.read {{.*}} (d0, d1, d2, d3, d4, d5, d6) -> (d2, d4, d5, 256*d3 + d6)
// PACKED-LABEL: func.func @wide
// PACKED: kernel.contract batch [] m [4, 8] n [16] k [2, 3, 3, 256] panel 16 lhs
// LARGE-LABEL: func.func @wide
// LARGE: k [3, 3, 512] lhs
func.func @wide(%x: tensor<4x8x512xf32>) -> tensor<4x8x16xf32> {
  %w = kernel.constant dense<1.0> : tensor<16x3x3x512xf32> : tensor<16x3x3x512xf32>
  %y = kernel.contract batch [] m [4, 8] n [16] k [3, 3, 512] lhs {
    %z = arith.constant 0.0 : f32
    %in = kernel.inside (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1) bounds [4, 8]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1, d5) if %in else(%z : f32) : tensor<4x8x512xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<16x3x3x512xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<4x8x16xf32>
  return %y : tensor<4x8x16xf32>
}

// Windows that read in place, channels that are no whole blocks, and weights that come at run time.
// CHECK-LABEL: func.func @as_they_are
// CHECK: k [3, 3, 512] lhs
// CHECK: k [3, 3, 384] lhs
// CHECK: k [3, 3, 512] lhs
func.func @as_they_are(%x: tensor<6x10x512xf32>, %y: tensor<4x20x384xf32>, %v: tensor<16x3x3x512xf32>) -> (tensor<4x8x16xf32>, tensor<4x20x16xf32>, tensor<6x10x16xf32>) {
  %w = kernel.constant dense<1.0> : tensor<16x3x3x512xf32> : tensor<16x3x3x512xf32>
  %u = kernel.constant dense<1.0> : tensor<16x3x3x384xf32> : tensor<16x3x3x384xf32>
  %p = kernel.contract batch [] m [4, 8] n [16] k [3, 3, 512] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3, d1 + d4, d5) : tensor<6x10x512xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<16x3x3x512xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<4x8x16xf32>
  %q = kernel.contract batch [] m [4, 20] n [16] k [3, 3, 384] lhs {
    %z = arith.constant 0.0 : f32
    %in = kernel.inside (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1) bounds [4, 20]
    %a = kernel.read %y (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1, d5) if %in else(%z : f32) : tensor<4x20x384xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %u (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<16x3x3x384xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<4x20x16xf32>
  %r = kernel.contract batch [] m [6, 10] n [16] k [3, 3, 512] lhs {
    %z = arith.constant 0.0 : f32
    %in = kernel.inside (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1) bounds [6, 10]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3 - 1, d1 + d4 - 1, d5) if %in else(%z : f32) : tensor<6x10x512xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %v (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<16x3x3x512xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<6x10x16xf32>
  return %p, %q, %r : tensor<4x8x16xf32>, tensor<4x20x16xf32>, tensor<6x10x16xf32>
}
