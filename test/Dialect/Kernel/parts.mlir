// RUN: kiln-opt %s | kiln-opt | FileCheck %s

// CHECK-LABEL: func.func @product
// CHECK: kernel.contract batch [] m [4] n [8] k [s0] perm [1, 0] part 64 lhs {
// CHECK: } : tensor<?x8x4xf32, #sym.shape<[s0 ceildiv 64, 8, 4]>>
func.func @product(%x: tensor<?x8xf32, #sym.shape<[s0, 8]>>) -> tensor<?x8x4xf32, #sym.shape<[s0 ceildiv 64, 8, 4]>> {
  %y = kernel.contract batch [] m [4] n [8] k [s0] perm [1, 0] part 64 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<?x8xf32, #sym.shape<[s0, 8]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d1) : tensor<?x8xf32, #sym.shape<[s0, 8]>> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<?x8x4xf32, #sym.shape<[s0 ceildiv 64, 8, 4]>>
  return %y : tensor<?x8x4xf32, #sym.shape<[s0 ceildiv 64, 8, 4]>>
}

// CHECK-LABEL: func.func @attention
// CHECK: %{{.*}}, %{{.*}}:2 = kernel.attention batch [2] m <1> n <100> d <8> dv <8> scale 1.000000e+00 part 64 q {
// CHECK: } : tensor<2x2x1x8xf32>, tensor<2x2x1xf32>, tensor<2x2x1xf32>
func.func @attention(%q: tensor<2x1x8xf16>, %k: tensor<2x100x8xf16>) -> tensor<2x2x1xf32> {
  %o:3 = kernel.attention batch [2] m <1> n <100> d <8> dv <8> scale 1.0 part 64 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x1x8xf16> -> f16
    kernel.yield %a : f16
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x100x8xf16> -> f16
    kernel.yield %a : f16
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x100x8xf16> -> f16
    kernel.yield %a : f16
  } bias {
  } : tensor<2x2x1x8xf32>, tensor<2x2x1xf32>, tensor<2x2x1xf32>
  return %o#1 : tensor<2x2x1xf32>
}

// CHECK: kernel.scan dim 0 associative part 4 init {
func.func @scan(%x: tensor<8xf32>, %starts: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.scan dim 0 associative part 4 init {
    %s = kernel.read %starts (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %s : f32
  } body {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %e : f32
  } combine {
  ^bb0(%sum: f32, %next: f32):
    %s = arith.addf %sum, %next : f32
    kernel.yield %s : f32
  } finish {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}
