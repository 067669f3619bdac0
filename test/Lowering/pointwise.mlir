// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file | FileCheck %s

// Half-precision operands are widened; alpha scales the second one.
// CHECK-LABEL: func.func @add
// CHECK-SAME: %[[A0:.*]]: tensor{{.*}}, %[[A1:.*]]: tensor
// CHECK: kernel.read %[[A0]] (d0, d1) -> (d0, d1)
// CHECK: arith.extf %{{.*}}
// CHECK: kernel.read %[[A1]] (d0, d1) -> (d1)
// CHECK: arith.mulf %{{.*}}, %{{.*}}
func.func @add(%x: tensor<8x4xbf16>, %y: tensor<4xf32>) -> tensor<8x4xf32> {
  %0 = torch.call "aten.add.Tensor"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, 2] {node = "add"} : (tensor<8x4xbf16>, tensor<4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// Computed in f32, with a number that is not rounded to f16 first, and rounded once.
// CHECK-LABEL: func.func @half
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: kernel.read %[[A0]] (d0) -> (d0)
// CHECK: arith.extf %{{.*}}
// CHECK: arith.mulf %{{.*}}, %{{.*}}
// CHECK: arith.truncf %{{.*}}
func.func @half(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = torch.call "aten.mul.Tensor"(%x) args = [#sym.arg<0>, 0.1] {node = "mul"} : (tensor<4xf16>) -> tensor<4xf16>
  return %0 : tensor<4xf16>
}

// -----

// An integer tensor and a float promote to the default float type.
// CHECK-LABEL: func.func @compare
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: kernel.read %[[A0]] (d0) -> (d0)
// CHECK: arith.sitofp %{{.*}}
// CHECK: arith.cmpf olt, %{{.*}}, %{{.*}}
func.func @compare(%x: tensor<4xi64>) -> tensor<4xi1> {
  %0 = torch.call "aten.gt.Scalar"(%x) args = [#sym.arg<0>, 0.5] {node = "gt"} : (tensor<4xi64>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// -----

// Through i64, as c10 does.
// CHECK-LABEL: func.func @to_uint8
// CHECK-SAME: %[[A0:.*]]: tensor
// CHECK: kernel.read %[[A0]] (d0) -> (d0)
// CHECK: arith.fptosi %{{.*}}
// CHECK: arith.trunci %{{.*}}
func.func @to_uint8(%x: tensor<4xf32>) -> tensor<4xui8> {
  %0 = torch.call "aten.to.dtype"(%x) args = [#sym.arg<0>, #sym.dtype<ui8>, false, false, unit] {node = "to"} : (tensor<4xf32>) -> tensor<4xui8>
  return %0 : tensor<4xui8>
}

// -----

// An index expression, in the declared dtype.
// CHECK-LABEL: func.func @arange
// CHECK: kernel.index (d0) -> (10 - 2*d0)
// CHECK: arith.trunci %{{.*}}
func.func @arange() -> tensor<4xi32> {
  %0 = torch.call "aten.arange.start_step"() args = [10, 2, -2, #sym.dtype<i32>, unit, unit, unit] {node = "arange"} : () -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// Integer divisors that may be zero are expected not to be.
// CHECK-LABEL: func.func @quotients
// CHECK: kernel.read
// CHECK: %[[D:.*]] = kernel.read
// CHECK: %[[OK:.*]] = arith.cmpi ne, %[[D]], %{{.*}}
// CHECK: %[[DIVISOR:.*]] = kernel.expect %[[D]] if %[[OK]], "aten.floor_divide.default: integer division by zero (node 'div')"
// CHECK: arith.divsi %{{.*}}, %[[DIVISOR]]
// CHECK-NOT: kernel.expect
func.func @quotients(%x: tensor<4xi64>, %y: tensor<4xi64>, %z: tensor<4xf32>) -> (tensor<4xi64>, tensor<4xi64>, tensor<4xf32>) {
  %0 = torch.call "aten.floor_divide.default"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>] {node = "div"} : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64> loc("div")
  %1 = torch.call "aten.floor_divide.default"(%x) args = [#sym.arg<0>, 7] {node = "by7"} : (tensor<4xi64>) -> tensor<4xi64>
  %2 = torch.call "aten.floor_divide.default"(%z, %z) args = [#sym.arg<0>, #sym.arg<1>] {node = "float"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xi64>, tensor<4xi64>, tensor<4xf32>
}
