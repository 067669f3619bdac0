// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// One product for all chunks, whose rows are then reduced; gradients that nobody wants are empty.
// CHECK-LABEL: func.func @loss
// CHECK: } : tensor<0x0xf32>
// CHECK: %[[LOGITS:.*]] = kernel.contract batch [] m [5] n [3] k [4]
// CHECK: %[[ROWS:.*]] = kernel.map
// CHECK: kernel.read %[[LOGITS]]
// CHECK: math.log
// CHECK: } : tensor<5xf32>
// CHECK: kernel.read %[[ROWS]]
// CHECK: } : tensor<f32>
func.func @loss(%x: tensor<5x4xf32>, %w: tensor<3x4xf32>, %t: tensor<5xi64>) -> (tensor<f32>, tensor<0x0xf32>) {
  %0:4 = torch.call "torch_nn._linear_cross_entropy_batch_chunked.default"(%x, %w, %t) args = [#sym.arg<0>, #sym.arg<1>, #sym.arg<2>, unit, unit, "mean", -100, 0.0, 2, "auto", #sym.dtype<f32>, true, false, false, false] {node = "loss"} : (tensor<5x4xf32>, tensor<3x4xf32>, tensor<5xi64>) -> (tensor<f32>, tensor<0x0xf32>, tensor<0x0xf32>, tensor<0xf32>)
  return %0#0, %0#1 : tensor<f32>, tensor<0x0xf32>
}
