// RUN: kiln-opt %s --torch-lower-to-kernel | FileCheck %s

// Bytes become integers of 32 bits before they are multiplied.
// CHECK-LABEL: func.func @product
// CHECK-SAME: (%[[X:.*]]: tensor<5x7xi8>, %[[W:.*]]: tensor<7x6xi8>)
// CHECK: %[[L:.*]] = kernel.map {
// CHECK-NEXT: kernel.read %[[X]]
// CHECK-NEXT: arith.extsi
// CHECK: %[[R:.*]] = kernel.map {
// CHECK-NEXT: kernel.read %[[W]]
// CHECK-NEXT: arith.extsi
// CHECK: kernel.contract
// CHECK-NEXT: kernel.read %[[L]]
// CHECK: kernel.read %[[R]]
// CHECK: tensor<5x6xi32>
func.func @product(%x: tensor<5x7xi8>, %w: tensor<7x6xi8>) -> tensor<5x6xi32> {
  %0 = torch.higher_order "out_dtype"(%x, %w) args = [#torch.operator<"aten.mm.default">, #sym.dtype<i32>, #sym.arg<0>, #sym.arg<1>]
      {node = "out_dtype"} : (tensor<5x7xi8>, tensor<7x6xi8>) -> tensor<5x6xi32>
  return %0 : tensor<5x6xi32>
}

// A quotient of integers is a float, which is cast last; a float lifts integers, too.
// CHECK-LABEL: func.func @numbers
// CHECK: arith.sitofp {{.*}} : i32 to f32
// CHECK: arith.divf
// CHECK: arith.fptosi {{.*}} : f32 to i32
// CHECK: arith.sitofp {{.*}} : i8 to f32
// CHECK: arith.mulf
// CHECK: arith.fptosi {{.*}} : f32 to i32
func.func @numbers(%x: tensor<4xi8>) -> (tensor<4xi32>, tensor<4xi32>) {
  %0 = torch.higher_order "out_dtype"(%x) args = [#torch.operator<"aten.div.Scalar">, #sym.dtype<i32>, #sym.arg<0>, 3]
      {node = "quotient"} : (tensor<4xi8>) -> tensor<4xi32>
  %1 = torch.higher_order "out_dtype"(%x) args = [#torch.operator<"aten.mul.Scalar">, #sym.dtype<i32>, #sym.arg<0>, 0.5]
      {node = "product"} : (tensor<4xi8>) -> tensor<4xi32>
  return %0, %1 : tensor<4xi32>, tensor<4xi32>
}
