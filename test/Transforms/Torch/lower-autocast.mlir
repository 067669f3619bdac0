// RUN: kiln-opt %s --torch-lower-autocast | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK: torch.higher_order "wrap"(%{{.*}}) args = [@inside, #sym.arg<0>, #sym.arg<1>]
func.func @main(%x: tensor<4x4xf32>, %d: tensor<4x4xf64>) -> tensor<4x4xbf16> {
  %0 = torch.higher_order "wrap_with_autocast"(%x, %d) args = ["cpu", #sym.dtype<bf16>, true, false, @inside, #sym.arg<0>, #sym.arg<1>]
      {node = "wrap"} : (tensor<4x4xf32>, tensor<4x4xf64>) -> tensor<4x4xbf16>
  // Outside, nothing happens.
  // CHECK: torch.call "aten.mm.default"(%{{.*}}, %{{.*}}) {{.*}} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = torch.call "aten.mm.default"(%x, %x) args = [#sym.arg<0>, #sym.arg<1>] {node = "mm"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xbf16>
}
// CHECK: func.func private @inside(%[[X:.*]]: tensor<4x4xf32>, %[[D:.*]]: tensor<4x4xf64>)
func.func private @inside(%x: tensor<4x4xf32>, %d: tensor<4x4xf64>) -> tensor<4x4xbf16> {
  // CHECK: %[[L:.*]] = torch.call "aten.to.dtype"(%[[X]]) args = [#sym.arg<0>, #sym.dtype<bf16>, false, false, unit]
  // CHECK: %[[R:.*]] = torch.call "aten.to.dtype"(%[[X]])
  // CHECK: %[[A:.*]] = torch.call "aten.mm.default"(%[[L]], %[[R]]) {{.*}} -> tensor<4x4xbf16>
  %a = torch.call "aten.mm.default"(%x, %x) args = [#sym.arg<0>, #sym.arg<1>] {node = "mm"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xbf16>
  // Doubles stay doubles.
  // CHECK: torch.call "aten.mm.default"(%[[D]], %[[D]])
  %b = torch.call "aten.mm.default"(%d, %d) args = [#sym.arg<0>, #sym.arg<1>] {node = "mm_1"} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: %[[F:.*]] = torch.call "aten.to.dtype"(%[[A]]) args = [#sym.arg<0>, #sym.dtype<f32>
  // CHECK: torch.call "aten.prod.default"(%[[F]])
  %c = torch.call "aten.prod.default"(%a) args = [#sym.arg<0>, unit] {node = "prod"} : (tensor<4x4xbf16>) -> tensor<f32>
  // CHECK: torch.call "aten.add.Tensor"(%[[A]], %[[X]])
  %e = torch.call "aten.add.Tensor"(%a, %x) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add"} : (tensor<4x4xbf16>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // A graph runs in the context of its caller; one that turns it off does not.
  // CHECK: torch.higher_order "cond"
  %f = torch.higher_order "cond"(%a) args = [true, @branch, @branch, [#sym.arg<0>]] {node = "cond"} : (tensor<4x4xbf16>) -> tensor<f32>
  // CHECK: torch.higher_order "wrap"(%{{.*}}) args = [@off, #sym.arg<0>]
  %g = torch.higher_order "wrap_with_autocast"(%x) args = ["cpu", #sym.dtype<bf16>, false, false, @off, #sym.arg<0>]
      {node = "wrap"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %a : tensor<4x4xbf16>
}
// CHECK: func.func private @branch
// CHECK-NEXT: torch.call "aten.to.dtype"
func.func private @branch(%x: tensor<4x4xbf16>) -> tensor<f32> {
  %c = torch.call "aten.prod.default"(%x) args = [#sym.arg<0>, unit] {node = "prod"} : (tensor<4x4xbf16>) -> tensor<f32>
  return %c : tensor<f32>
}
// CHECK: func.func private @off
// CHECK-NEXT: torch.call "aten.mm.default"
func.func private @off(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = torch.call "aten.mm.default"(%x, %x) args = [#sym.arg<0>, #sym.arg<1>] {node = "mm"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %a : tensor<4x4xf32>
}

// A context around the export shows in what it gave.
// CHECK-LABEL: func.func @ambient
// CHECK: %[[A:.*]] = torch.call "aten.to.dtype"(%arg0) args = [#sym.arg<0>, #sym.dtype<bf16>
// CHECK: %[[B:.*]] = torch.call "aten.to.dtype"(%arg0) args = [#sym.arg<0>, #sym.dtype<bf16>
// CHECK: torch.call "aten.mm.default"(%[[A]], %[[B]])
// CHECK-NOT: aten.to
// CHECK: torch.call "aten.mm.default"(%arg0, %arg0)
func.func @ambient(%x: tensor<4x4xf32>) -> (tensor<4x4xbf16>, tensor<4x4xf32>) {
  %a = torch.call "aten.mm.default"(%x, %x) args = [#sym.arg<0>, #sym.arg<1>] {node = "mm"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xbf16>
  %b = torch.call "aten.mm.default"(%x, %x) args = [#sym.arg<0>, #sym.arg<1>] {node = "mm_1"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %a, %b : tensor<4x4xbf16>, tensor<4x4xf32>
}
