// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-pack-operands | FileCheck %s
// RUN: kiln-opt %s --run-reference --cpu-set-target=cpu=x86-64-v4 --cpu-pack-operands --run-reference -o /dev/null

// Lanes run over channels: the weights get channels last. The operand that is no constant stays.
// CHECK-LABEL: func.func @depthwise
// CHECK: %[[W:.*]] = kernel.constant
// CHECK: %[[P:.*]] = kernel.map
// CHECK: kernel.read %[[W]] (d0, d1, d2) -> (d2, d0, d1)
// CHECK: tensor<3x3x64xf32>
// CHECK: kernel.map
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4) -> (d0 + d3, d1 + d4, d2)
// CHECK: kernel.read %[[P]] (d0, d1, d2, d3, d4) -> (d3, d4, d2)
func.func @depthwise(%x: tensor<16x16x64xf32>) -> tensor<14x14x64xf32> {
  %w = kernel.constant dense<1.0> : tensor<64x3x3xf32> : tensor<64x3x3xf32>
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [3, 3] init(%zero : f32) {
      %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0 + d3, d1 + d4, d2) : tensor<16x16x64xf32> -> f32
      %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d2, d3, d4) : tensor<64x3x3xf32> -> f32
      %m = arith.mulf %a, %b : f32
      kernel.yield %m : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<14x14x64xf32>
  return %y : tensor<14x14x64xf32>
}

// Columns of weights that are unpacked where they are used become consecutive.
// CHECK-LABEL: func.func @int8_weights
// CHECK: %[[W:.*]] = kernel.constant dense<1>
// CHECK: %[[P:.*]] = kernel.map {
// CHECK-NEXT: kernel.read %[[W]] (d0, d1) -> (d1, d0)
// CHECK: tensor<64x96xi8>
// CHECK: kernel.read %[[P]] (d0, d1, d2) -> (d2, d1) : tensor<64x96xi8> -> i8
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d1) : tensor<96xf32> -> f32
func.func @int8_weights(%x: tensor<2x64xf32>) -> tensor<2x96xf32> {
  %w = kernel.constant dense<1> : tensor<96x64xi8> : tensor<96x64xi8>
  %s = kernel.constant dense<1.0> : tensor<96xf32> : tensor<96xf32>
  %r = kernel.contract batch [] m [2] n [96] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %i = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<96x64xi8> -> i8
    %f = arith.sitofp %i : i8 to f32
    %c = kernel.read %s (d0, d1, d2) -> (d1) : tensor<96xf32> -> f32
    %b = arith.mulf %f, %c : f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<2x96xf32>
  return %r : tensor<2x96xf32>
}
