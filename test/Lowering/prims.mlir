// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Every value follows from its place.
// CHECK-LABEL: func.func @iota(
// CHECK: kernel.map
// CHECK: kernel.index (d0) -> (d0)
// CHECK: kernel.yield %{{.*}} : i64
func.func @iota() -> tensor<4xi64> {
  %0 = torch.call "prims.iota.default"() args = [4, 0, 1, #sym.dtype<i64>, #sym.device<"cpu">, false] {node = "iota"} : () -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// A dim of size one is repeated, as is a dim that the result alone has.
// CHECK-LABEL: func.func @broadcast_in_dim(
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d1, 0) : tensor<2x1xf32> -> f32
func.func @broadcast_in_dim(%x: tensor<2x1xf32>) -> tensor<4x2x3xf32> {
  %0 = torch.call "prims.broadcast_in_dim.default"(%x) args = [#sym.arg<0>, [4, 2, 3], [1, 2]] {node = "b"} : (tensor<2x1xf32>) -> tensor<4x2x3xf32>
  return %0 : tensor<4x2x3xf32>
}

// CHECK-LABEL: func.func @sum(
// CHECK: kernel.reduce
func.func @sum(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %0 = torch.call "prims.sum.default"(%x) args = [#sym.arg<0>, [1], unit] {node = "s"} : (tensor<2x3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
