// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Above the threshold the value itself counts.
// CHECK-LABEL: func.func @softplus(
// CHECK: kernel.read %arg0 (d0) -> (d0)
// CHECK: arith.cmpf olt, %{{.*}}, %{{.*}} : f32
// CHECK: math.exp %{{.*}} : f32
// CHECK: math.log1p %{{.*}} : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
func.func @softplus(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.softplus.default"(%x) args = [#sym.arg<0>, 2.0, 20.0] {node = "softplus"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// One half gates the other one, without a copy of either.
// CHECK-LABEL: func.func @glu(
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1 + 3)
// CHECK: math.exp %{{.*}} : f32
// CHECK: kernel.yield %{{.*}} : f32
func.func @glu(%x: tensor<4x6xf32>) -> tensor<4x3xf32> {
  %0 = torch.call "aten.glu.default"(%x) args = [#sym.arg<0>, 1] {node = "glu"} : (tensor<4x6xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
