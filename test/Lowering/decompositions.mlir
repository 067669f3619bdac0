// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Matrices are handed over by columns and in double precision.
// CHECK-LABEL: func.func @qr
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d0, d2, d1) : tensor<1x4x?xf64
// CHECK: %[[PACKED:.*]]:2 = kernel.extern "kiln" "kiln_linalg_geqrf_f64"(%{{.*}}) args = [#sym.arg<0>] projection = [0, 1]
// CHECK-SAME: -> (tensor<1x?x4xf64, #sym.shape<[1, s0, 4]>>, tensor<1x?xf64, #sym.shape<[1, min(s0, 4)]>>)
// CHECK: kernel.extern "kiln" "kiln_linalg_orgqr_f64"(%[[PACKED]]#0, %[[PACKED]]#1)

func.func @qr(%a: tensor<4x?xf32, #sym.shape<[4, s0]>>) -> (tensor<4x?xf32, #sym.shape<[4, min(s0, 4)]>>, tensor<?x?xf32, #sym.shape<[min(s0, 4), s0]>>) {
  %0:2 = torch.call "aten.linalg_qr.default"(%a) args = [#sym.arg<0>, "reduced"] {node = "qr"} : (tensor<4x?xf32, #sym.shape<[4, s0]>>) -> (tensor<4x?xf32, #sym.shape<[4, min(s0, 4)]>>, tensor<?x?xf32, #sym.shape<[min(s0, 4), s0]>>)
  return %0#0, %0#1 : tensor<4x?xf32, #sym.shape<[4, min(s0, 4)]>>, tensor<?x?xf32, #sym.shape<[min(s0, 4), s0]>>
}

// -----

// Nobody asks for Q.
// CHECK-LABEL: func.func @r
// CHECK: kernel.extern "kiln" "kiln_linalg_geqrf_c128"
// CHECK-NOT: kernel.extern
func.func @r(%a: tensor<2x3x3xcomplex<f32>>) -> (tensor<0xcomplex<f32>>, tensor<2x3x3xcomplex<f32>>) {
  %0:2 = torch.call "aten.linalg_qr.default"(%a) args = [#sym.arg<0>, "r"] {node = "qr"} : (tensor<2x3x3xcomplex<f32>>) -> (tensor<0xcomplex<f32>>, tensor<2x3x3xcomplex<f32>>)
  return %0#0, %0#1 : tensor<0xcomplex<f32>>, tensor<2x3x3xcomplex<f32>>
}

// -----

// The vectors are not computed where nobody reads them; the second result is scratch memory.
// CHECK-LABEL: func.func @svd
// CHECK: kernel.extern "kiln" "kiln_linalg_svd_f64"(%{{.*}}) args = [#sym.arg<0>] projection = [0, 1]
// CHECK-SAME: (tensor<1x3x5xf64>) -> (tensor<1x3xf64>, tensor<1x38xf64>)
func.func @svd(%a: tensor<5x3xf32>) -> tensor<3xf32> {
  %0:3 = torch.call "aten._linalg_svd.default"(%a) args = [#sym.arg<0>, false, true, unit] {node = "svd"} : (tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<3xf32>, tensor<3x3xf32>)
  return %0#1 : tensor<3xf32>
}

// -----

// The adjoint of the upper triangle is the lower one.
// CHECK-LABEL: func.func @eigh
// CHECK: kernel.extern "kiln" "kiln_linalg_eigh_f64"(%{{.*}}) args = [#sym.arg<0>] projection = [0, 1, 2]
// CHECK-SAME: (tensor<2x3x3xf64>) -> (tensor<2x3xf64>, tensor<2x18xf64>, tensor<2x3x3xf64>)
func.func @eigh(%a: tensor<2x3x3xf64>) -> (tensor<2x3xf64>, tensor<2x3x3xf64>) {
  %0:2 = torch.call "aten._linalg_eigh.default"(%a) args = [#sym.arg<0>, "U", true] {node = "eigh"} : (tensor<2x3x3xf64>) -> (tensor<2x3xf64>, tensor<2x3x3xf64>)
  return %0#0, %0#1 : tensor<2x3xf64>, tensor<2x3x3xf64>
}

// -----

// Eigenvalues of real matrices are complex.
// CHECK-LABEL: func.func @eigenvalues
// CHECK: kernel.extern "kiln" "kiln_linalg_eig_f64"(%{{.*}}) args = [#sym.arg<0>] projection = [0, 1]
// CHECK-SAME: (tensor<1x3x3xf64>) -> (tensor<1x3xcomplex<f64>>, tensor<1x33xf64>)
func.func @eigenvalues(%a: tensor<3x3xf32>) -> tensor<3xcomplex<f32>> {
  %0 = torch.call "aten.linalg_eigvals.default"(%a) args = [#sym.arg<0>] {node = "eigvals"} : (tensor<3x3xf32>) -> tensor<3xcomplex<f32>>
  return %0 : tensor<3xcomplex<f32>>
}

// -----

// The gradient is a block of the exponential of a matrix of twice the size.
// CHECK-LABEL: func.func @gradient
// CHECK: kernel.extern "kiln" "kiln_linalg_matrix_exp_f64"(%{{.*}}) args = [#sym.arg<0>] projection = [0, 1]
// CHECK-SAME: (tensor<2x6x6xf64>) -> (tensor<2x6x6xf64>, tensor<2x264xf64>)
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d0, d1, d2 + 3)
func.func @gradient(%a: tensor<2x3x3xf64>, %g: tensor<2x3x3xf64>) -> tensor<2x3x3xf64> {
  %0 = torch.call "aten.matrix_exp_backward.default"(%a, %g) args = [#sym.arg<0>, #sym.arg<1>] {node = "grad"} : (tensor<2x3x3xf64>, tensor<2x3x3xf64>) -> tensor<2x3x3xf64>
  return %0 : tensor<2x3x3xf64>
}

// -----

// CHECK-LABEL: func.func @ldl
// CHECK: kernel.extern "kiln" "kiln_linalg_ldl_factor_c128"(%{{.*}}) args = [#sym.arg<0>, true] projection = [0, 1, 2]
// CHECK: kernel.check %{{.*}}, "a matrix is singular
// CHECK: kernel.extern "kiln" "kiln_linalg_ldl_solve_c128"
func.func @ldl(%a: tensor<3x3xcomplex<f64>>, %b: tensor<3x2xcomplex<f64>>) -> tensor<3x2xcomplex<f64>> {
  %0:2 = torch.call "aten.linalg_ldl_factor.default"(%a) args = [#sym.arg<0>, true] {node = "ldl"} : (tensor<3x3xcomplex<f64>>) -> (tensor<3x3xcomplex<f64>>, tensor<3xi32>)
  %1 = torch.call "aten.linalg_ldl_solve.default"(%0#0, %0#1, %b) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, true] {node = "solve"} : (tensor<3x3xcomplex<f64>>, tensor<3xi32>, tensor<3x2xcomplex<f64>>) -> tensor<3x2xcomplex<f64>>
  return %1 : tensor<3x2xcomplex<f64>>
}
