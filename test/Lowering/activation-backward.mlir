// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Computed in f32 and rounded once.
// CHECK-LABEL: func.func @silu
// CHECK-DAG: arith.extf %{{.*}} : bf16 to f32
// CHECK-DAG: arith.extf %{{.*}} : bf16 to f32
// CHECK: math.exp
// CHECK: %[[R:.*]] = arith.truncf %{{.*}} : f32 to bf16
// CHECK-NEXT: kernel.yield %[[R]]
func.func @silu(%g: tensor<4xbf16>, %x: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = torch.call "aten.silu_backward.default"(%g, %x) args = [#sym.arg<0>, #sym.arg<1>] {node = "s"} : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

// Both halves of the argument are read for each element of the gradient.
// CHECK-LABEL: func.func @glu
// CHECK-SAME: %[[G:.*]]: tensor<3x4xf32>, %[[X:.*]]: tensor<3x8xf32>
// CHECK: kernel.inside (d0, d1) -> (d1) bounds [4]
// CHECK: kernel.read %[[X]] (d0, d1) -> (d0, d1 mod 4 + 4)
// CHECK: kernel.read %[[G]] (d0, d1) -> (d0, d1 mod 4)
// CHECK: kernel.read %[[X]] (d0, d1) -> (d0, d1 mod 4)
// CHECK: arith.select
func.func @glu(%g: tensor<3x4xf32>, %x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %0 = torch.call "aten.glu_backward.default"(%g, %x) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "g"} : (tensor<3x4xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// -----

// The gradient of a mean is one for all elements.
// CHECK-LABEL: func.func @mse
// CHECK-SAME: %[[G:.*]]: tensor<f32>
// CHECK: arith.subf
// CHECK: kernel.read %[[G]] (d0) -> ()
// CHECK: arith.mulf
// CHECK: arith.divf
func.func @mse(%g: tensor<f32>, %x: tensor<4xf32>, %t: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.mse_loss_backward.default"(%g, %x, %t) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, 1] {node = "m"} : (tensor<f32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
