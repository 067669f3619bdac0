// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// The boxes in the order of their scores; a step for each of them; those that are left, counted and defined.
// CHECK-LABEL: func.func @nms(
// CHECK: %[[ORDER:[^,]*]], %{{.*}} = kernel.sort
// CHECK: %[[BOXES:.*]] = kernel.map
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d2, d1) values(%{{.*}}) : tensor<9x4xf32>
// CHECK: kernel.for @loop_0 length 9(
// CHECK: kernel.define "u0" from
// CHECK: %[[PLACES:.*]] = kernel.repeat
// CHECK: %[[PLACE:.*]] = kernel.read %[[PLACES]] (d0) -> (d0)
// CHECK: kernel.read %[[ORDER]]
// A threshold that f32 does not have is rounded down: an f32 is above one as it is above the other.
// CHECK: func.func private @loop_0
// CHECK: %[[LIMIT:.*]] = arith.constant 0.099999994{{.*}} : f32
// CHECK-NEXT: arith.cmpf olt, %[[LIMIT]], %{{.*}} : f32
module attributes {sym.symbols = {u0 = {min = 0}}} {
  func.func @nms(%boxes: tensor<9x4xf32>, %scores: tensor<9xf32>) -> tensor<?xi64, #sym.shape<[u0]>> {
    %0 = torch.call "torchvision.nms.default"(%boxes, %scores) args = [#sym.arg<0>, #sym.arg<1>, 1.000000e-01] {node = "nms", defines = ["u0"]} : (tensor<9x4xf32>, tensor<9xf32>) -> tensor<?xi64, #sym.shape<[u0]>>
    return %0 : tensor<?xi64, #sym.shape<[u0]>>
  }
}
