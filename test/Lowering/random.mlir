// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// The seed and the place of a number decide its value; the state moves by as many numbers as were drawn.
// CHECK-LABEL: func.func @rand(
// CHECK: kernel.constant "kiln.random" {kernel.mutated} dense<[67280421310721, 0]> : tensor<2xi64> : tensor<2xi64>
// CHECK: kernel.map
// CHECK: kernel.read %{{.*}} (d0) -> (0)
// CHECK: kernel.read %{{.*}} (d0) -> (1)
// CHECK: kernel.index (d0) -> (d0)
// CHECK: kernel.map
// CHECK: kernel.index (d0) -> (d0)
// CHECK: kernel.read %{{.*}} (d0) -> (d0)
// CHECK: return %{{.*}}, %{{.*}}
func.func @rand() -> tensor<4xf32> {
  %0 = torch.call "aten.rand.default"() args = [[4], unit, unit, unit, unit] {node = "rand"} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
