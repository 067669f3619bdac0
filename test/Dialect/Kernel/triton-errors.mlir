// RUN: kiln-opt %s --verify-diagnostics --split-input-file

// image_c1
// expected-error@+4 {{code of the kind 'elf'}}
// expected-error@+3 {{failed to parse Kernel_TritonConfigAttr parameter 'images'}}
kernel.triton @k inputs ["x"] configs [
#kernel.triton_config<function = "k", threads = 64, alignment = 8, grid = [0, 0, 0], parameters = [0], types = [tensor<*xf32>],
  images = [#kernel.triton_image<arch = "sm_90", kind = "elf", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

// image_c2
// expected-error@+4 {{code as a 'tensor<4xi16>'}}
// expected-error@+3 {{failed to parse Kernel_TritonConfigAttr parameter 'images'}}
kernel.triton @k inputs ["x"] configs [
#kernel.triton_config<function = "k", threads = 64, alignment = 8, grid = [0, 0, 0], parameters = [0], types = [tensor<*xf32>],
  images = [#kernel.triton_image<arch = "sm_90", kind = "ptx", shared = 0, code = dense_resource<code> : tensor<4xi16>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

// image_c3
// expected-error@+4 {{blocks with 300000 bytes of shared memory}}
// expected-error@+3 {{failed to parse Kernel_TritonConfigAttr parameter 'images'}}
kernel.triton @k inputs ["x"] configs [
#kernel.triton_config<function = "k", threads = 64, alignment = 8, grid = [0, 0, 0], parameters = [0], types = [tensor<*xf32>],
  images = [#kernel.triton_image<arch = "sm_90", kind = "ptx", shared = 300000, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

// config_c1
// expected-error@+2 {{blocks of 48 threads}}
kernel.triton @k inputs ["x"] configs [
#kernel.triton_config<function = "k", threads = 48, alignment = 8, grid = [0, 0, 0], parameters = [0], types = [tensor<*xf32>],
  images = [#kernel.triton_image<arch = "sm_90", kind = "cubin", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

// config_c1
// expected-error@+2 {{addresses at multiples of 3}}
kernel.triton @k inputs ["x"] configs [
#kernel.triton_config<function = "k", threads = 64, alignment = 3, grid = [0, 0, 0], parameters = [0], types = [tensor<*xf32>],
  images = [#kernel.triton_image<arch = "sm_90", kind = "cubin", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

// config_c2
// expected-error@+2 {{a grid of 2 dims}}
kernel.triton @k inputs ["x"] configs [
#kernel.triton_config<function = "k", threads = 64, alignment = 8, grid = [0, 0], parameters = [0], types = [tensor<*xf32>],
  images = [#kernel.triton_image<arch = "sm_90", kind = "cubin", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

// config_c3
// expected-error@+2 {{2 types for 1 parameters}}
kernel.triton @k inputs ["x"] configs [
#kernel.triton_config<function = "k", threads = 64, alignment = 8, grid = [0, 0, 0], parameters = [0], types = [i32, i32],
  images = [#kernel.triton_image<arch = "sm_90", kind = "cubin", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

// config_c3
// expected-error@+2 {{a parameter of type i32}}
kernel.triton @k inputs ["x"] configs [
#kernel.triton_config<function = "k", threads = 64, alignment = 8, grid = [0, 0, 0], parameters = [-1], types = [i32],
  images = [#kernel.triton_image<arch = "sm_90", kind = "cubin", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

// config_c4
// expected-error@+2 {{no images, or others than images}}
kernel.triton @k inputs ["x"] configs [
#kernel.triton_config<function = "k", threads = 64, alignment = 8, grid = [0, 0, 0], parameters = [0], types = [tensor<*xf32>],
  images = [1]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

// triton_c1
// expected-error@+1 {{has no configurations, or others than configurations}}
kernel.triton @k inputs ["x"] configs []

// -----

// triton_c2
// expected-error@+1 {{refers to inputs beyond its 1}}
kernel.triton @k inputs ["x"] configs [
#kernel.triton_config<function = "k", threads = 64, alignment = 8, grid = [0, 1, 0], parameters = [0], types = [tensor<*xf32>],
  images = [#kernel.triton_image<arch = "sm_90", kind = "cubin", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

// triton_c2
// expected-error@+1 {{refers to inputs beyond its 1}}
kernel.triton @k inputs ["x"] configs [
#kernel.triton_config<function = "k", threads = 64, alignment = 8, grid = [0, 0, 0], parameters = [5], types = [tensor<*xf32>],
  images = [#kernel.triton_image<arch = "sm_90", kind = "cubin", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}
