// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Computed in double precision and rounded once.
// CHECK-LABEL: func.func @hann(
// CHECK: kernel.index (d0) -> (d0)
// CHECK: math.cos %{{.*}} : f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @hann() -> tensor<6xf32> {
  %0 = torch.call "aten.hann_window.default"() args = [6, unit, unit, unit, unit] {node = "hann"} : () -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
