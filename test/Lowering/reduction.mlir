// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// The number of elements may be an expression. Sums are accumulated in f64.
// CHECK-LABEL: func.func @mean
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: kernel.reduce [s0] init(%{{.*}} : f64) {
// CHECK: kernel.read %[[A0]] (d0, d1, d2) -> (d2, d1)
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: kernel.index (d0, d1) -> (s0)
// CHECK: arith.sitofp %{{.*}}
// CHECK: arith.divf %{{.*}}, %{{.*}}
func.func @mean(%x: tensor<?x4xf32, #sym.shape<[s0, 4]>>) -> tensor<1x4xf32> {
  %0 = torch.call "aten.mean.dim"(%x) args = [#sym.arg<0>, [0], true, unit] {node = "mean"} : (tensor<?x4xf32, #sym.shape<[s0, 4]>>) -> tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}

// -----

// Of equal values the first counts, and NaN is larger than all.
// CHECK-LABEL: func.func @argmax
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: kernel.reduce [4] init(%{{.*}}, %{{.*}} : f32, i64) {
// CHECK: kernel.read %[[A0]] (d0, d1) -> (d0, d1)
// CHECK: kernel.index (d0, d1) -> (d1)
// CHECK: arith.cmpf olt, %{{.*}}, %{{.*}}
// CHECK: arith.cmpf oeq, %{{.*}}, %{{.*}}
// CHECK: arith.cmpi slt, %{{.*}}, %{{.*}}
// CHECK: arith.cmpf une, %{{.*}}, %{{.*}}
// CHECK: arith.cmpf une, %{{.*}}, %{{.*}}
// CHECK: arith.cmpi slt, %{{.*}}, %{{.*}}
// CHECK: arith.cmpf une, %{{.*}}, %{{.*}}
// CHECK: arith.cmpf une, %{{.*}}, %{{.*}}
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}}
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}}
func.func @argmax(%x: tensor<3x4xf32>) -> tensor<3xi64> {
  %0 = torch.call "aten.argmax.default"(%x) args = [#sym.arg<0>, 1, false] {node = "argmax"} : (tensor<3x4xf32>) -> tensor<3xi64>
  return %0 : tensor<3xi64>
}

// -----

// The mean, then the squared distances from it.
// CHECK-LABEL: func.func @layer_norm
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor
// CHECK: kernel.reduce [8] init(%{{.*}} : f32) {
// CHECK: kernel.read %[[A0]] (d0, d1, d2) -> (d0, d2)
// CHECK: arith.divf %{{.*}}, %{{.*}}
// CHECK: kernel.reduce [8] init(%{{.*}} : f32) {
// CHECK: kernel.read %[[A0]] (d0, d1, d2) -> (d0, d2)
// CHECK: arith.mulf %{{.*}}, %{{.*}}
// CHECK: arith.divf %{{.*}}, %{{.*}}
// CHECK: math.sqrt %{{.*}}
// CHECK: arith.divf %{{.*}}, %{{.*}}
// CHECK: kernel.read %[[A0]] (d0, d1) -> (d0, d1)
// CHECK: arith.mulf %{{.*}}, %{{.*}}
// CHECK: kernel.read %[[A1]] (d0, d1) -> (d1)
// CHECK: arith.mulf %{{.*}}, %{{.*}}
func.func @layer_norm(%x: tensor<2x8xf32>, %w: tensor<8xf32>) -> tensor<2x8xf32> {
  %0 = torch.call "aten.layer_norm.default"(%x, %w) args = [#sym.arg<0>, [8], #sym.arg<1>, unit, 1.0e-5, false] {node = "ln"} : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

// Windows of equal length need no test. They are added up in f64, whose rounding does not show in means that cancel.
// CHECK-LABEL: func.func @avg_pool
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: kernel.reduce [3] init(%{{.*}} : f64) {
// CHECK: kernel.read %[[A0]] (d0, d1, d2, d3) -> (d0, d2, 2*d1 + d3)
// CHECK: arith.divf %{{.*}}, %{{.*}}
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d0, d2, d1)
func.func @avg_pool(%x: tensor<1x2x7xf32>) -> tensor<1x2x3xf32> {
  %0 = torch.call "aten.adaptive_avg_pool1d.default"(%x) args = [#sym.arg<0>, [3]] {node = "pool"} : (tensor<1x2x7xf32>) -> tensor<1x2x3xf32>
  return %0 : tensor<1x2x3xf32>
}

// -----

// Results that nobody uses are not computed.
// CHECK-LABEL: func.func @unused
// CHECK: kernel.reduce
// CHECK: kernel.reduce
// CHECK: kernel.yield %{{[0-9]+}} : f32
// CHECK-NEXT: } : tensor<2xf32>
// CHECK: kernel.reduce [8] init(%{{.*}} : f32)
// CHECK-NOT: i64
// CHECK: return
func.func @unused(%x: tensor<2x8xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = torch.call "aten.var.correction"(%x) args = [#sym.arg<0>, [1], 1, false] {node = "var"} : (tensor<2x8xf32>) -> tensor<2xf32>
  %1:2 = torch.call "aten.max.dim"(%x) args = [#sym.arg<0>, 1, false] {node = "max"} : (tensor<2x8xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  return %0, %1#0 : tensor<2xf32>, tensor<2xf32>
}

// -----

// The bits of f64.
// CHECK-LABEL: func.func @hash
// CHECK: kernel.reduce [3, 4] init(%{{.*}} : i64) {
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: arith.bitcast %{{.*}} : f64 to i64
// CHECK: } combine {
// CHECK: arith.xori
func.func @hash(%x: tensor<3x4xf32>) -> tensor<ui64> {
  %0 = torch.call "aten.hash_tensor.default"(%x) args = [#sym.arg<0>, [], false, 0] {node = "hash"} : (tensor<3x4xf32>) -> tensor<ui64>
  return %0 : tensor<ui64>
}
