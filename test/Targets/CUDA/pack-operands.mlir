// RUN: kiln-opt %s --cuda-pack-operands | FileCheck %s
// RUN: kiln-opt %s --run-reference --cuda-pack-operands --run-reference -o /dev/null

// The last steps are channels, which get to lie side by side in the weights; what rows walk along stays.
// CHECK-LABEL: func.func @window
// CHECK: %[[W:.*]] = kernel.constant "w"
// CHECK: %[[V:.*]] = kernel.constant "v"
// CHECK: %[[MOVED:.*]] = kernel.map {
// CHECK-NEXT: kernel.read %[[W]] (d0, d1, d2, d3) -> (d0, d3, d1, d2)
// CHECK: } : tensor<8x3x3x16xf16>
// CHECK: kernel.read %[[MOVED]] (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<8x3x3x16xf16> -> f16
// CHECK: kernel.read %[[V]] (d0, d1, d2) -> (d2, d1) : tensor<16x8xf16> -> f16
func.func @window(%x: tensor<10x10x16xf16>) -> (tensor<8x8x8xf16>, tensor<100x8xf16>) {
  %w = kernel.constant "w" dense<1.0> : tensor<8x16x3x3xf16> : tensor<8x16x3x3xf16>
  %v = kernel.constant "v" dense<1.0> : tensor<16x8xf16> : tensor<16x8xf16>
  %y = kernel.contract batch [] m [8, 8] n [8] k [3, 3, 16] lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3, d1 + d4, d5) : tensor<10x10x16xf16> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d5, d3, d4) : tensor<8x16x3x3xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %t = arith.truncf %sum : f32 to f16
    kernel.yield %t : f16
  } : tensor<8x8x8xf16>
  %z = kernel.contract batch [] m [100] n [8] k [16] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0 floordiv 10, d0 mod 10, d2) : tensor<10x10x16xf16> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %v (d0, d1, d2) -> (d2, d1) : tensor<16x8xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %t = arith.truncf %sum : f32 to f16
    kernel.yield %t : f16
  } : tensor<100x8xf16>
  return %y, %z : tensor<8x8x8xf16>, tensor<100x8xf16>
}
