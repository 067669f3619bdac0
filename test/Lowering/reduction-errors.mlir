// RUN: kiln-opt %s --torch-lower-to-kernel --verify-diagnostics --split-input-file

// Complex numbers have no order, in any reduction that asks for one.
func.func @complex(%x: tensor<2x4xcomplex<f32>>) -> (tensor<2xi64>, tensor<i64>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) {
  // expected-error-re@+1 {{aten.argmax.default: an order of complex numbers{{.*}}; aten.argmin.default: an order of complex numbers{{.*}}; aten.max.dim: an order of complex numbers{{.*}}; aten.amin.default: {{.*}}; aten.aminmax.default: this dtype}}
  %0 = torch.call "aten.argmax.default"(%x) args = [#sym.arg<0>, 1, false] {node = "argmax"} : (tensor<2x4xcomplex<f32>>) -> tensor<2xi64>
  %1 = torch.call "aten.argmin.default"(%x) args = [#sym.arg<0>, unit, false] {node = "argmin"} : (tensor<2x4xcomplex<f32>>) -> tensor<i64>
  %2:2 = torch.call "aten.max.dim"(%x) args = [#sym.arg<0>, 1, false] {node = "max"} : (tensor<2x4xcomplex<f32>>) -> (tensor<2xcomplex<f32>>, tensor<2xi64>)
  %3 = torch.call "aten.amin.default"(%x) args = [#sym.arg<0>, [1], false] {node = "amin"} : (tensor<2x4xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  %4:2 = torch.call "aten.aminmax.default"(%x) args = [#sym.arg<0>, 1, false] {node = "aminmax"} : (tensor<2x4xcomplex<f32>>) -> (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>)
  return %0, %1, %2#0, %3 : tensor<2xi64>, tensor<i64>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>
}
