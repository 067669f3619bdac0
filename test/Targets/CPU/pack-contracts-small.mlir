// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-pack-contracts --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --cpu-set-target=cpu=x86-64-v4 --cpu-pack-contracts --run-reference --split-input-file -o /dev/null
// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-pack-contracts --remarks-filter=cpu-pack-contracts --split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Weights of four bits, eight steps in a word; a scale and a zero point for each 32
// steps. The rows, computed where they are read, become a tensor.
// REMARK: right operand packed into panels of 128 columns of small integers
// CHECK-LABEL: func.func @groups
// CHECK: %[[X:.*]] = kernel.map {
// CHECK: } : tensor<1x64xf32>
// CHECK: %[[BITS:.*]] = kernel.map {
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (128*d0 + d2, 8*d1 + 7)
// CHECK: kernel.expect %{{.*}} if %{{.*}}, "weights of more than four bits" : i32
// CHECK: } : tensor<2x8x128xi32>
// CHECK: %[[SCALES:.*]] = kernel.map {
// CHECK: } : tensor<2x2x128xf32>
// CHECK: %[[ZEROS:.*]] = kernel.map {
// CHECK: } : tensor<2x2x128xf32>
// CHECK: kernel.contract batch [] m [1] n [256] k [2, 4, 8] panel 128 lhs {
// CHECK-NEXT: kernel.read %[[X]] (d0, d1, d2, d3, d4) -> (d0, 32*d2 + 8*d3 + d4)
// CHECK: rhs {
// CHECK-NEXT: kernel.read %[[BITS]] (d0, d1, d2, d3, d4) -> (d1 floordiv 128, 4*d2 + d3, d1 mod 128)
// CHECK: kernel.index (d0, d1, d2, d3, d4) -> (28 - 4*d4)
// CHECK: arith.sitofp
// CHECK-NEXT: kernel.read %[[ZEROS]] (d0, d1, d2, d3, d4) -> (d1 floordiv 128, d2, d1 mod 128)
// CHECK-NEXT: arith.subf
// CHECK-NEXT: kernel.read %[[SCALES]]
// CHECK-NEXT: arith.mulf
func.func @groups(%x: tensor<1x64xf32>) -> tensor<1x256xf32> {
  %w = kernel.constant "w" dense<-7> : tensor<256x64xi8> : tensor<256x64xi8>
  %z = kernel.constant "z" dense<3> : tensor<256x2xi8> : tensor<256x2xi8>
  %s = kernel.constant "s" dense<0.5> : tensor<256x2xf32> : tensor<256x2xf32>
  %r = kernel.contract batch [] m [1] n [256] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    %1 = arith.mulf %0, %0 : f32
    kernel.yield %1 : f32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<256x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to f32
    %2 = kernel.read %z (d0, d1, d2) -> (d1, d2 floordiv 32) : tensor<256x2xi8> -> i8
    %3 = arith.sitofp %2 : i8 to f32
    %4 = arith.subf %1, %3 : f32
    %5 = kernel.read %s (d0, d1, d2) -> (d1, d2 floordiv 32) : tensor<256x2xf32> -> f32
    %6 = arith.mulf %4, %5 : f32
    kernel.yield %6 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x256xf32>
  return %r : tensor<1x256xf32>
}

// -----

// Bytes of a convolution's weights: the scale of a channel is the epilogue's, and zero points are checked.
// REMARK: right operand packed into panels of 32 columns of small integers
// CHECK-LABEL: func.func @channels
// CHECK: kernel.map {
// CHECK: kernel.expect %{{.*}} if %{{.*}}, "weights with zero points other than 0" : i32
// CHECK: } : tensor<1x18x32xi8>
// CHECK: kernel.contract batch [] m [4, 4] n [32] k [3, 3, 2] panel 32 lhs {
// CHECK: rhs {
// CHECK-NEXT: kernel.read %{{.*}} -> i8
// CHECK-NEXT: arith.sitofp %{{.*}} : i8 to f32
// CHECK-NEXT: kernel.yield
// CHECK: epilogue {
// CHECK-NEXT: ^bb0(%[[SUM:.*]]: f32):
// CHECK-NEXT: %[[S:.*]] = kernel.read %{{.*}} (d0, d1, d2, d3, d4, d5) -> (d2) : tensor<32xf32> -> f32
// CHECK-NEXT: arith.mulf %[[SUM]], %[[S]]
func.func @channels(%x: tensor<6x6x2xf32>) -> tensor<4x4x32xf32> {
  %w = kernel.constant "w" dense<100> : tensor<32x2x3x3xi8> : tensor<32x2x3x3xi8>
  %z = kernel.constant "z" dense<0> : tensor<32xi64> : tensor<32xi64>
  %s = kernel.constant "s" dense<0.5> : tensor<32xf32> : tensor<32xf32>
  %r = kernel.contract batch [] m [4, 4] n [32] k [2, 3, 3] lhs {
    %0 = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d4, d1 + d5, d3) : tensor<6x6x2xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5) : tensor<32x2x3x3xi8> -> i8
    %1 = arith.sitofp %0 : i8 to f32
    %2 = kernel.read %z (d0, d1, d2, d3, d4, d5) -> (d2) : tensor<32xi64> -> i64
    %3 = arith.sitofp %2 : i64 to f32
    %4 = arith.subf %1, %3 : f32
    %5 = kernel.read %s (d0, d1, d2, d3, d4, d5) -> (d2) : tensor<32xf32> -> f32
    %6 = arith.mulf %4, %5 : f32
    kernel.yield %6 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<4x4x32xf32>
  return %r : tensor<4x4x32xf32>
}

// -----

// Scales of single steps are no groups.
// REMARK: NotPacked{{.*}}it is not computed of small integers by scales and zero points
// CHECK-LABEL: func.func @steps
// CHECK-NOT: panel
func.func @steps(%x: tensor<4x64xf32>) -> tensor<4x96xf32> {
  %w = kernel.constant "w" dense<-7> : tensor<96x64xi8> : tensor<96x64xi8>
  %s = kernel.constant "s" dense<0.5> : tensor<64xf32> : tensor<64xf32>
  %r = kernel.contract batch [] m [4] n [96] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4x64xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<96x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to f32
    %2 = kernel.read %s (d0, d1, d2) -> (d2) : tensor<64xf32> -> f32
    %3 = arith.mulf %1, %2 : f32
    kernel.yield %3 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<4x96xf32>
  return %r : tensor<4x96xf32>
}
