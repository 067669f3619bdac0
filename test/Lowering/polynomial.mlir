// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// The recurrence is a loop in the kernel, whose length the degree gives.
// CHECK-LABEL: func.func @hermite(
// CHECK: kernel.read %arg0 (d0) -> (d0)
// CHECK: kernel.iterate at_most 9223372036854775807 init
func.func @hermite(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.special_hermite_polynomial_h.n_scalar"(%x) args = [#sym.arg<0>, 3] {node = "hermite"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A tensor of degrees: ends, the cosine and the recurrence are all computed, each element chooses.
// CHECK-LABEL: func.func @chebyshev(
// CHECK: kernel.read %arg0 (d0) -> (d0)
// CHECK: kernel.read %arg1 (d0) -> (d0)
// CHECK: math.acos %{{.*}} : f32
// CHECK: math.cos %{{.*}} : f32
// CHECK: kernel.iterate at_most 9223372036854775807 init
// CHECK: math.absf %{{.*}} : f32
func.func @chebyshev(%x: tensor<4xf32>, %y: tensor<4xi64>) -> tensor<4xf32> {
  %0 = torch.call "aten.special_chebyshev_polynomial_t.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>] {node = "chebyshev"} : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
