// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file --verify-diagnostics

func.func @order(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  // expected-error @below {{cannot compile prims.broadcast_in_dim.default: dims that are not in order: f32[2, 3]}}
  %0 = torch.call "prims.broadcast_in_dim.default"(%x) args = [#sym.arg<0>, [3, 2], [1, 0]] {node = "b"} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

func.func @missing(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error @below {{cannot compile prims.broadcast_in_dim.default: a dim that the result does not have: f32[2, 3]}}
  %0 = torch.call "prims.broadcast_in_dim.default"(%x) args = [#sym.arg<0>, [2, 3], [1, 2]] {node = "b"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
