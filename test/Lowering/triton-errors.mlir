// RUN: kiln-opt %s --torch-lower-to-kernel=triton --verify-diagnostics --split-input-file

func.func @not_packed(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{triton_kernel_wrapper_functional: the archive has no code for it: pack it with python -m kiln.pack}}
  %0 = torch.higher_order "triton_kernel_wrapper_functional"(%x) args = [#sym.arg<0>, "k", [0]]
      {node = "k", names = ["x", "name", "output_indices"], torch.strides = [#sym.shape<[1]>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @overlapping(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  // expected-error@+1 {{argument 'x': memory of the strides [1, 1], in which elements overlap or whose order is not known}}
  %0 = torch.higher_order "triton_kernel_wrapper_functional"(%x) args = [#sym.arg<0>, 1, "k", [0]]
      {node = "k", names = ["x", "grid", "name", "output_indices"], kernel.triton = @k, torch.strides = [#sym.shape<[1, 1]>]} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
kernel.triton @k inputs ["x", "grid"] configs [
  #kernel.triton_config<function = "k", threads = 32, alignment = 16, grid = [1, 1, 1], parameters = [0], types = [tensor<*xf32>],
    images = [#kernel.triton_image<arch = "sm_90", kind = "ptx", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

func.func @written_repeated(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  // expected-error@+1 {{argument 'x': it is written and has several elements in one place}}
  %0 = torch.higher_order "triton_kernel_wrapper_functional"(%x) args = [#sym.arg<0>, 1, "k", [0]]
      {node = "k", names = ["x", "grid", "name", "output_indices"], kernel.triton = @k, torch.strides = [#sym.shape<[1, 0]>]} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
kernel.triton @k inputs ["x", "grid"] configs [
  #kernel.triton_config<function = "k", threads = 32, alignment = 16, grid = [1, 1, 1], parameters = [0], types = [tensor<*xf32>],
    images = [#kernel.triton_image<arch = "sm_90", kind = "ptx", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

func.func @writes(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{output_indices do not name its arguments}}
  %0 = torch.higher_order "triton_kernel_wrapper_functional"(%x) args = [#sym.arg<0>, 1, "k", [2]]
      {node = "k", names = ["x", "grid", "name", "output_indices"], kernel.triton = @k, torch.strides = [#sym.shape<[1]>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
kernel.triton @k inputs ["x", "grid"] configs [
  #kernel.triton_config<function = "k", threads = 32, alignment = 16, grid = [1, 1, 1], parameters = [0], types = [tensor<*xf32>],
    images = [#kernel.triton_image<arch = "sm_90", kind = "ptx", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

func.func @data(%x: tensor<4xf32>, %n: tensor<f64>) -> tensor<4xf32> {
  // expected-error@+1 {{argument 'by': it is neither a tensor nor a number that is known before the run}}
  %0 = torch.higher_order "triton_kernel_wrapper_functional"(%x, %n) args = [#sym.arg<0>, #sym.scalar<1>, "k", [0]]
      {node = "k", names = ["x", "by", "name", "output_indices"], kernel.triton = @k, torch.strides = [#sym.shape<[1]>]} : (tensor<4xf32>, tensor<f64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
kernel.triton @k inputs ["x", "by"] configs [
  #kernel.triton_config<function = "k", threads = 32, alignment = 16, grid = [1, 1, 1], parameters = [0], types = [tensor<*xf32>],
    images = [#kernel.triton_image<arch = "sm_90", kind = "ptx", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

func.func @dtype(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{argument 'x': its kernel has been compiled for tensor<*xf16>, not for a tensor of f32}}
  %0 = torch.higher_order "triton_kernel_wrapper_functional"(%x) args = [#sym.arg<0>, 1, "k", [0]]
      {node = "k", names = ["x", "grid", "name", "output_indices"], kernel.triton = @k, torch.strides = [#sym.shape<[1]>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
kernel.triton @k inputs ["x", "grid"] configs [
  #kernel.triton_config<function = "k", threads = 32, alignment = 16, grid = [1, 1, 1], parameters = [0], types = [tensor<*xf16>],
    images = [#kernel.triton_image<arch = "sm_90", kind = "ptx", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}
