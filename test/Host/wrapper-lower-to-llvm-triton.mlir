// RUN: kiln-opt %s --wrapper-lower-to-llvm=device | FileCheck %s

// A launch has a row for each image of each configuration, with the kernel's table, its parameters, and which numbers are the
// grid; then the operands that it writes, and where in the numbers their bytes are.
// CHECK-DAG: llvm.mlir.global external hidden constant @kiln_device_add_1f2e.0.0()
// CHECK-DAG: llvm.mlir.global external hidden constant @kiln_device_add_1f2e.0.1()
// CHECK-DAG: llvm.func hidden @kiln_rt_device_triton(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
// CHECK-NOT: kernel.triton @
kernel.triton @add_1f2e inputs ["x", "out", "n", "scale", "grid.x", "one"] configs [
  #kernel.triton_config<function = "add", threads = 128, alignment = 16, grid = [4, 5, 5],
    parameters = [0, 1, 2, 3, -1], types = [tensor<*xf32>, tensor<*xf32>, i32, f32, tensor<*xi8>],
    images = [#kernel.triton_image<arch = "sm_90", kind = "cubin", shared = 0, code = dense_resource<code> : tensor<4xi8>>,
              #kernel.triton_image<arch = "sm_80", kind = "ptx", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]

wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[s0], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64, symbols = {s0 = {min = 0}}} {
  wrapper.bind "s0" from %x size 0 as s0 : !wrapper.buffer<[s0], [1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[s0], [1], f32>
  // CHECK-LABEL: llvm.func internal @kiln_main
  // CHECK: %[[LAUNCH:.*]] = llvm.mlir.addressof @kiln_triton_0 : !llvm.ptr
  // The scale is the bits of a double.
  // CHECK: llvm.mlir.constant(4602678819172646912 : i64)
  // CHECK: %[[STATUS:.*]] = llvm.call @kiln_rt_device_triton(%arg0, %[[LAUNCH]], %{{.*}}, %{{.*}})
  // CHECK: llvm.cond_br %{{.*}}, ^[[ERROR:bb[0-9]+]](%[[STATUS]] : i32), ^
  wrapper.extern_call "triton" "add_1f2e" args = [#sym.arg<0>, #sym.arg<1>, #sym.expr<s0>, 0.5, #sym.expr<s0 ceildiv 256>, 1]
      ins(%x, %x : !wrapper.buffer<[s0], [1], f32>, !wrapper.buffer<[s0], [1], f32>) outs(%y : !wrapper.buffer<[s0], [1], f32>) projection = [] updates = [1]
}
{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}
