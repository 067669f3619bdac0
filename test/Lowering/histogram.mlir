// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Elements between the ends are counted where their bin is.
// CHECK-LABEL: func.func @histc(
// CHECK: kernel.scatter batch [] targets [4] places [7]
// CHECK: kernel.read %arg0 (d0, d1) -> (d1)
// CHECK: arith.cmpf ole, %{{.*}}, %{{.*}} : f32
// CHECK: arith.cmpf ole, %{{.*}}, %{{.*}} : f32
// CHECK: arith.fptosi %{{.*}} : f32 to i64
// CHECK: arith.addi %arg1, %arg2 : i64
// CHECK: kernel.map
// CHECK: kernel.read %{{.*}} (d0) -> (d0)
func.func @histc(%x: tensor<7xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.histc.default"(%x) args = [#sym.arg<0>, 4, 0, 1] {node = "histc"} : (tensor<7xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
