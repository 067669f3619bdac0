// RUN: kiln-opt %s --kernel-outline | FileCheck %s
// RUN: kiln-opt %s --run-reference --kernel-outline --run-reference -o /dev/null

// Equal ops share a kernel.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = kernel.call @map_0(%{{.*}})
// CHECK: kernel.call @map_0(%[[A]])
// CHECK: kernel.func @map_0(%[[X:.*]]: tensor<8xf32>) -> tensor<8xf32>
// CHECK: kernel.read %[[X]]
// CHECK-NOT: kernel.func
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = kernel.map {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<8xf32>
  %b = kernel.map {
    %e = kernel.read %a (d0) -> (d0) : tensor<8xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<8xf32>
  return %b : tensor<8xf32>
}
