// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Eight boundaries take four steps of a binary search, each a read that depends on the one before.
// CHECK-LABEL: func.func @bucketize(
// CHECK: kernel.read %arg1 (d0, d1) -> (d1) values(%{{.*}}) if %{{.*}} else(%{{.*}}
// CHECK: kernel.read %arg1 (d0, d1) -> (d1) values(%{{.*}}) if %{{.*}} else(%{{.*}}
// CHECK: kernel.read %arg1 (d0, d1) -> (d1) values(%{{.*}}) if %{{.*}} else(%{{.*}}
// CHECK: kernel.read %arg1 (d0, d1) -> (d1) values(%{{.*}}) if %{{.*}} else(%{{.*}}
func.func @bucketize(%x: tensor<5xf32>, %y: tensor<8xf32>) -> tensor<5xi64> {
  %0 = torch.call "aten.bucketize.Tensor"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, false, false] {node = "bucketize"} : (tensor<5xf32>, tensor<8xf32>) -> tensor<5xi64>
  return %0 : tensor<5xi64>
}
