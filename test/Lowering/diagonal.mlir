// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// One read, where both indices are equal.
// CHECK-LABEL: func.func @diag_embed(
// CHECK: kernel.index (d0, d1) -> (d0)
// CHECK: kernel.index (d0, d1) -> (d1)
// CHECK: arith.cmpi eq, %{{.*}}, %{{.*}} : i64
// CHECK: kernel.read %arg0 (d0, d1) -> (d0) if %{{.*}} else(%{{.*}}
func.func @diag_embed(%x: tensor<3xf32>) -> tensor<3x3xf32> {
  %0 = torch.call "aten.diag_embed.default"(%x) args = [#sym.arg<0>, 0, -2, -1] {node = "diag_embed"} : (tensor<3xf32>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}

// -----

// Indices decide which elements stay.
// CHECK-LABEL: func.func @tril(
// CHECK: kernel.index (d0, d1) -> (d0 + 1)
// CHECK: kernel.index (d0, d1) -> (d1)
// CHECK: arith.cmpi sle, %{{.*}}, %{{.*}} : i64
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, d1)
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
func.func @tril(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = torch.call "aten.tril.default"(%x) args = [#sym.arg<0>, 1] {node = "tril"} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
