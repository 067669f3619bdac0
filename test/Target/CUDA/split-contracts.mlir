// RUN: kiln-opt %s --cuda-split-contracts --split-input-file | FileCheck %s

// 24 blocks would be few: the steps are cut in four, and a map adds the sums, in order, and runs the epilogue.
// CHECK-LABEL: func.func @narrow
// CHECK: %[[PARTS:.*]] = kernel.contract batch [4] m [100] n [768] k [768] perm [0, 2, 1] lhs {
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d1, 768*d0 + d3) : tensor<100x3072xf16> -> f16
// CHECK: } rhs {
// CHECK: kernel.read %{{.*}} (d0, d1, d2, d3) -> (d2, 768*d0 + d3) : tensor<768x3072xf16> -> f16
// CHECK: } epilogue {
// CHECK-NEXT: ^bb0(%[[SUM:.*]]: f32):
// CHECK-NEXT: kernel.yield %[[SUM]] : f32
// CHECK-NEXT: } : tensor<4x768x100xf32>
// CHECK: kernel.map {
// CHECK: %[[ALL:.*]] = kernel.reduce [4] init(
// CHECK: kernel.read %[[PARTS]] (d0, d1, d2) -> (d2, d0, d1) : tensor<4x768x100xf32> -> f32
// CHECK: arith.addf
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d0) : tensor<768xf32> -> f32
// CHECK: arith.addf %[[ALL]]
// CHECK: } : tensor<768x100xf16>
func.func @narrow(%x: tensor<100x3072xf16>, %w: tensor<768x3072xf16>, %b: tensor<768xf32>) -> tensor<768x100xf16> {
  %y = kernel.contract batch [] m [100] n [768] k [3072] perm [1, 0] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<100x3072xf16> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<768x3072xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %bias = kernel.read %b (d0, d1, d2) -> (d1) : tensor<768xf32> -> f32
    %s = arith.addf %sum, %bias : f32
    %t = arith.truncf %s : f32 to f16
    kernel.yield %t : f16
  } : tensor<768x100xf16>
  return %y : tensor<768x100xf16>
}

// -----

// Blocks there may be enough of, when the model runs; and so there are of the other.
// CHECK-LABEL: func.func @enough
// CHECK: kernel.contract batch [] m [s0] n [64] k [4096]
// CHECK: kernel.contract batch [] m [1024] n [1024] k [4096]
func.func @enough(%x: tensor<?x4096xf32, #sym.shape<[s0, 4096]>>, %w: tensor<1024x4096xf32>)
    -> (tensor<?x64xf32, #sym.shape<[s0, 64]>>, tensor<1024x1024xf32>) {
  %y = kernel.contract batch [] m [s0] n [64] k [4096] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<?x4096xf32, #sym.shape<[s0, 4096]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<1024x4096xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<?x64xf32, #sym.shape<[s0, 64]>>
  %z = kernel.contract batch [] m [1024] n [1024] k [4096] lhs {
    %a = kernel.read %w (d0, d1, d2) -> (d0, d2) : tensor<1024x4096xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<1024x4096xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1024x1024xf32>
  return %y, %z : tensor<?x64xf32, #sym.shape<[s0, 64]>>, tensor<1024x1024xf32>
}
