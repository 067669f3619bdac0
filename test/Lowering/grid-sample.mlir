// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Four corners, those outside are zero.
// CHECK-LABEL: func.func @bilinear(
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5) -> (d0, d1, d4, d5) values(%{{.*}}, %{{.*}}) if %{{.*}} else(%{{.*}}
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5) -> (d0, d1, d4, d5) values(%{{.*}}, %{{.*}}) if %{{.*}} else(%{{.*}}
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5) -> (d0, d1, d4, d5) values(%{{.*}}, %{{.*}}) if %{{.*}} else(%{{.*}}
// CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4, d5) -> (d0, d1, d4, d5) values(%{{.*}}, %{{.*}}) if %{{.*}} else(%{{.*}}
func.func @bilinear(%x: tensor<1x2x4x4xf32>, %y: tensor<1x3x3x2xf32>) -> tensor<1x2x3x3xf32> {
  %0 = torch.call "aten.grid_sampler_2d.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, 0, 0, false] {node = "bilinear"} : (tensor<1x2x4x4xf32>, tensor<1x3x3x2xf32>) -> tensor<1x2x3x3xf32>
  return %0 : tensor<1x2x3x3xf32>
}
