// RUN: kiln-opt %s --cuda-split-contracts --split-input-file | FileCheck %s

// 24 blocks would be few: the steps are cut in five, and a map adds the sums, in order, and runs the epilogue.
// CHECK-LABEL: func.func @narrow
// CHECK: %[[PARTS:.*]] = kernel.contract batch [] m [100] n [768] k [3072] perm [1, 0] part 640 lhs {
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d0, d2) : tensor<100x3072xf16> -> f16
// CHECK: } rhs {
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d1, d2) : tensor<768x3072xf16> -> f16
// CHECK: } epilogue {
// CHECK-NEXT: ^bb0(%[[SUM:.*]]: f32):
// CHECK-NEXT: kernel.yield %[[SUM]] : f32
// CHECK-NEXT: } : tensor<5x768x100xf32>
// CHECK: kernel.map {
// CHECK: %[[ALL:.*]] = kernel.reduce [5] init(
// CHECK: kernel.read %[[PARTS]] (d0, d1, d2) -> (d2, d0, d1) : tensor<5x768x100xf32> -> f32
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

// How many parts there are is known when the model runs.
// CHECK-LABEL: func.func @gradient
// CHECK: %[[PARTS:.*]] = kernel.contract batch [] m [64] n [64] k [s0] part max(64*(s0 ceildiv 1024), 256) lhs {
// CHECK: } : tensor<?x64x64xf32, #sym.shape<[s0 ceildiv max(64*(s0 ceildiv 1024), 256), 64, 64]>>
// CHECK: kernel.reduce [s0 ceildiv max(64*(s0 ceildiv 1024), 256)]
func.func @gradient(%x: tensor<?x64xf32, #sym.shape<[s0, 64]>>) -> tensor<64x64xf32>
    attributes {sym.symbols = {s0 = {min = 2 : i64, max = 100000 : i64}}} {
  %y = kernel.contract batch [] m [64] n [64] k [s0] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<?x64xf32, #sym.shape<[s0, 64]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d1) : tensor<?x64xf32, #sym.shape<[s0, 64]>> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}

// -----

// Whether there are enough blocks of the first product the run decides; there are of the other.
// CHECK-LABEL: func.func @enough
// CHECK: kernel.cond when 63 - s0 ceildiv 64 then @product_in_parts else @product(%{{.*}}, %{{.*}}) :
// CHECK: kernel.contract batch [] m [1024] n [1024] k [4096]
// CHECK-LABEL: func.func private @product_in_parts
// CHECK: kernel.contract batch [] m [s0] n [64] k [4096] part
// CHECK: kernel.reduce
// CHECK-LABEL: func.func private @product(
// CHECK: kernel.contract batch [] m [s0] n [64] k [4096] lhs
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
