// RUN: kiln-opt %s | kiln-opt | FileCheck %s

// CHECK: kernel.triton @k inputs ["x", "n", "grid"] configs
// CHECK-SAME: #kernel.triton_config<function = "k", threads = 64, alignment = 8, grid = [2, 1, 1], parameters = [0, 1, -1],
// CHECK-SAME: types = [tensor<*xbf16>, i64, tensor<*xi8>],
// CHECK-SAME: images = [#kernel.triton_image<arch = "sm_90", kind = "cubin", shared = 4096, code = dense_resource<code> : tensor<4xi8>>]>
kernel.triton @k inputs ["x", "n", "grid"] configs [
  #kernel.triton_config<function = "k", threads = 64, alignment = 8, grid = [2, 1, 1], parameters = [0, 1, -1], types = [tensor<*xbf16>, i64, tensor<*xi8>],
    images = [#kernel.triton_image<arch = "sm_90", kind = "cubin", shared = 4096, code = dense_resource<code> : tensor<4xi8>>]>]
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}
