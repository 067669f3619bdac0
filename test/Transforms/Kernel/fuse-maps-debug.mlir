// Says of each read whether it is replaced, in the round in which it is looked at.
// REQUIRES: debug-lines
// RUN: kiln-opt %s --kernel-fuse-maps --debug-only=kernel-fuse-maps,none -o /dev/null 2>&1 | FileCheck %s
// RUN: kiln-opt %s --kernel-fuse-maps --debug-only=none -o /dev/null 2>&1 | FileCheck %s --check-prefix=OTHER --allow-empty
// OTHER-NOT: {{.}}

// CHECK: [kernel-fuse-maps {{.*}}] node 'tanh' (model.py:3) into node 'exp' (model.py:4): yes
func.func @chain(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %a = kernel.map {
    %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    %t = math.tanh %e : f32
    kernel.yield %t : f32
  } : tensor<8x4xf32> loc("tanh"("model.py":3:0))
  %b = kernel.map {
    %e = kernel.read %a (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    %t = math.exp %e : f32
    kernel.yield %t : f32
  } : tensor<8x4xf32> loc("exp"("model.py":4:0))
  return %b : tensor<8x4xf32>
}
