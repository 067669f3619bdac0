// RUN: kiln-opt %s --cpu-fold-constants --mlir-print-elementsattrs-with-hex-if-larger=-1 | FileCheck %s

// The host gives @w its value later: what is made of it is computed then, by kernels of the library, and the rest now.
// CHECK-LABEL: func.func @later
// CHECK: %[[W:.*]] = kernel.constant "w" dense_resource<given>
// CHECK: %[[SIX:.*]] = kernel.constant dense_resource<[[NOW:[a-z_0-9]+]]> : tensor<2xf32>
// CHECK: %[[Y:.*]] = kernel.constant dense_resource<{{.*}}> from @[[ADD:fold_[0-9]]] result 0 of(%[[W]], %[[SIX]] : tensor<2xf32>, tensor<2xf32>)
// CHECK: %[[Z:.*]] = kernel.constant dense_resource<{{.*}}> from @[[MUL:fold_[0-9]]] result 0 of(%[[Y]] : tensor<2xf32>)
// CHECK: return %[[Z]]
// CHECK: kernel.func @[[ADD]](
// CHECK: kernel.func @[[MUL]](
// CHECK-NOT: kernel.func
// CHECK: [[NOW]]: "0x400000000000C0400000C040"
func.func @later() -> tensor<2xf32> {
  %w = kernel.constant "w" dense_resource<given> : tensor<2xf32> : tensor<2xf32>
  %three = kernel.constant dense<3.0> : tensor<2xf32> : tensor<2xf32>
  %six = kernel.map {
    %a = kernel.read %three (d0) -> (d0) : tensor<2xf32> -> f32
    %b = kernel.read %three (d0) -> (d0) : tensor<2xf32> -> f32
    %s = arith.addf %a, %b : f32
    kernel.yield %s : f32
  } : tensor<2xf32>
  %y = kernel.map {
    %a = kernel.read %w (d0) -> (d0) : tensor<2xf32> -> f32
    %b = kernel.read %six (d0) -> (d0) : tensor<2xf32> -> f32
    %s = arith.addf %a, %b : f32
    kernel.yield %s : f32
  } : tensor<2xf32>
  %z = kernel.map {
    %a = kernel.read %y (d0) -> (d0) : tensor<2xf32> -> f32
    %b = kernel.read %y (d0) -> (d0) : tensor<2xf32> -> f32
    %m = arith.mulf %a, %b : f32
    kernel.yield %m : f32
  } : tensor<2xf32>
  return %z : tensor<2xf32>
}
