// RUN: kiln-opt %s --torch-lower-to-kernel=triton --split-input-file | FileCheck %s

// Tensors are operands, numbers are arguments, in the places that the kernel's inputs have; what it writes are
// copies, which are the results.
// CHECK-LABEL: func.func @inputs
// CHECK-SAME: (%[[X:.*]]: tensor<?x4xf32, #sym.shape<[n, 4]>>, %[[OUT:.*]]: tensor<?x4xf32, #sym.shape<[n, 4]>>)
module attributes {sym.symbols = {n = {min = 0}}} {
func.func @inputs(%x: tensor<?x4xf32, #sym.shape<[n, 4]>>, %out: tensor<?x4xf32, #sym.shape<[n, 4]>>) -> tensor<?x4xf32, #sym.shape<[n, 4]>> {
  // CHECK-NEXT: %[[Y:.*]] = kernel.extern "triton" "add_1f2e"(%[[X]], %[[OUT]])
  // CHECK-SAME: args = [#sym.arg<0>, #sym.arg<1>, #sym.expr<4*n>, 5.000000e-01, #sym.expr<n ceildiv 64>, 1, unit]
  // CHECK-SAME: projection = [] updates = [1]
  // CHECK-NEXT: return %[[Y]]
  %y = torch.higher_order "triton_kernel_wrapper_functional"(%x, %out)
      args = [#sym.arg<0>, #sym.arg<1>, #sym.expr<4*n>, 0.5, #sym.expr<(4*n + 255) floordiv 256>, 1, unit, "add_1f2e", [1]]
      {node = "add", names = ["x", "out", "n", "scale", "grid.0.x", "grid.0.y", "bias", "name", "output_indices"], kernel.triton = @add_1f2e,
       torch.strides = [#sym.shape<[4, 1]>, #sym.shape<[4, 1]>]}
      : (tensor<?x4xf32, #sym.shape<[n, 4]>>, tensor<?x4xf32, #sym.shape<[n, 4]>>) -> tensor<?x4xf32, #sym.shape<[n, 4]>>
  return %y : tensor<?x4xf32, #sym.shape<[n, 4]>>
}
// CHECK: kernel.triton @add_1f2e
kernel.triton @add_1f2e inputs ["x", "out", "n", "scale", "grid.0.x", "grid.0.y", "bias"] configs [
  #kernel.triton_config<function = "add", threads = 128, alignment = 16, grid = [4, 5, 5],
    parameters = [0, 1, 2, 3, -1], types = [tensor<*xf32>, tensor<*xf32>, i32, f32, tensor<*xi8>],
    images = [#kernel.triton_image<arch = "sm_90", kind = "ptx", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]
}

{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}

// -----

// Operands lie in memory as export has recorded their strides: a transposed one has its dims in the order of memory, one
// with gaps has zeros in them, and one that repeats its elements has them once.
// CHECK-LABEL: func.func @layouts
// CHECK-SAME: (%[[A:.*]]: tensor<3x5xf32>, %[[B:.*]]: tensor<3x5xf32>, %[[C:.*]]: tensor<3x5xf32>)
func.func @layouts(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>, %c: tensor<3x5xf32>) -> (tensor<3x5xf32>, tensor<3x5xf32>) {
  // CHECK: %[[TRANSPOSED:.*]] = kernel.map
  // CHECK: kernel.read %[[A]] (d0, d1) -> (d1, d0) : tensor<3x5xf32> -> f32
  // CHECK: } : tensor<5x3xf32>
  // CHECK: %[[PADDED:.*]] = kernel.map
  // CHECK: kernel.inside (d0, d1) -> (d1) bounds [5]
  // CHECK: kernel.read %[[B]] (d0, d1) -> (d0, d1) if
  // CHECK: } : tensor<3x8xf32>
  // CHECK: %[[ONCE:.*]] = kernel.map
  // CHECK: kernel.read %[[C]] (d0) -> (0, d0) : tensor<3x5xf32> -> f32
  // CHECK: } : tensor<5xf32>
  // CHECK: %[[Y:.*]]:2 = kernel.extern "triton" "mix_1f2e"(%[[TRANSPOSED]], %[[PADDED]], %[[ONCE]])
  // CHECK-SAME: updates = [0, 1] : (tensor<5x3xf32>, tensor<3x8xf32>, tensor<5xf32>) -> (tensor<5x3xf32>, tensor<3x8xf32>)
  // CHECK: kernel.read %[[Y]]#0 (d0, d1) -> (d1, d0) : tensor<5x3xf32> -> f32
  // CHECK: } : tensor<3x5xf32>
  // CHECK: kernel.read %[[Y]]#1 (d0, d1) -> (d0, d1) : tensor<3x8xf32> -> f32
  // CHECK: } : tensor<3x5xf32>
  %y:2 = torch.higher_order "triton_kernel_wrapper_functional"(%a, %b, %c)
      args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, 1, "mix_1f2e", [0, 1]]
      {node = "mix", names = ["a", "b", "c", "grid", "name", "output_indices"], kernel.triton = @mix_1f2e,
       torch.strides = [#sym.shape<[1, 3]>, #sym.shape<[8, 1]>, #sym.shape<[0, 1]>]}
      : (tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>) -> (tensor<3x5xf32>, tensor<3x5xf32>)
  return %y#0, %y#1 : tensor<3x5xf32>, tensor<3x5xf32>
}
kernel.triton @mix_1f2e inputs ["a", "b", "c", "grid"] configs [
  #kernel.triton_config<function = "mix", threads = 32, alignment = 16, grid = [3, 3, 3],
    parameters = [0, 1, 2], types = [tensor<*xf32>, tensor<*xf32>, tensor<*xf32>],
    images = [#kernel.triton_image<arch = "sm_90", kind = "ptx", shared = 0, code = dense_resource<code> : tensor<4xi8>>]>]

{-# dialect_resources: { builtin: { code: "0x010000002f2f2f2f" } } #-}
