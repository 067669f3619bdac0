// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file --verify-diagnostics

func.func @integers(%a: tensor<3x3xi64>) -> tensor<3x3xi64> {
  // expected-error @+1 {{cannot compile aten.matrix_exp.default: needs square matrices of floats}}
  %0 = torch.call "aten.matrix_exp.default"(%a) args = [#sym.arg<0>] {node = "exp"} : (tensor<3x3xi64>) -> tensor<3x3xi64>
  return %0 : tensor<3x3xi64>
}

// -----

func.func @order(%a: tensor<3x3xf32>) -> tensor<f32> {
  // expected-error @+1 {{cannot compile aten.linalg_matrix_norm.default: an order that matrices have no norm of}}
  %0 = torch.call "aten.linalg_matrix_norm.default"(%a) args = [#sym.arg<0>, 3, [-2, -1], false, unit] {node = "norm"} : (tensor<3x3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @driver(%a: tensor<3x2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{cannot compile aten.linalg_svdvals.default: a driver, which CPUs have none of}}
  %0 = torch.call "aten.linalg_svdvals.default"(%a) args = [#sym.arg<0>, "gesvd"] {node = "svd"} : (tensor<3x2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @reflectors(%a: tensor<3x2xf32>, %t: tensor<2xf32>, %c: tensor<4x2xf32>) -> tensor<4x2xf32> {
  // expected-error @+1 {{cannot compile aten.ormqr.default: matrices that do not fit}}
  %0 = torch.call "aten.ormqr.default"(%a, %t, %c) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, true, false] {node = "ormqr"} : (tensor<3x2xf32>, tensor<2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// -----

// The factors are those of the transposed matrix if it lies by rows.
func.func @factors(%a: tensor<3x3xf32>) -> (tensor<f32>, tensor<3x3xf32>) {
  // expected-error @+1 {{cannot compile aten._linalg_det.default: factors that depend on how a matrix lies in memory}}
  %0:3 = torch.call "aten._linalg_det.default"(%a) args = [#sym.arg<0>] {node = "det"} : (tensor<3x3xf32>) -> (tensor<f32>, tensor<3x3xf32>, tensor<3xi32>)
  return %0#0, %0#1 : tensor<f32>, tensor<3x3xf32>
}
