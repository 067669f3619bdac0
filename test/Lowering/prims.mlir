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
