// RUN: kiln-opt %s --torch-lower-to-kernel="fallback=torch" --split-input-file | FileCheck %s

// What has a lowering is lowered; what has none is a call with the arguments as they are. Results that are None or that nobody
// uses are not asked for.
// CHECK-LABEL: func.func @calls
// CHECK: kernel.map
// CHECK: %[[R:.*]] = kernel.extern "torch" "aten._sobol_engine_draw.default"(%{{.*}}, %{{.*}}) args = [#sym.arg<0>, 1, #sym.arg<1>, 2, 3, unit] projection = [1] :
// CHECK: kernel.extern "torch" "lib.op.default"(%{{.*}}, %{{.*}}) args = [#sym.arg<0>, {{\[}}[#sym.arg<1>], #sym.expr<s0>]] names = ["self", ""] projection = [2] impure :
func.func @calls(%x: tensor<4x4xf32>) -> (tensor<4xi32>, tensor<4xf32>) {
  %0 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "relu"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1:2 = torch.call "aten._sobol_engine_draw.default"(%0, %x) args = [#sym.arg<0>, 1, #sym.arg<1>, 2, 3, unit] {node = "draw"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xi32>)
  %2:3 = torch.call "lib.op.default"(%x, %0) args = [#sym.arg<0>, [[#sym.arg<1>], #sym.expr<s0>]] {node = "op", names = ["self", ""]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4xf32>, none, tensor<4xf32>)
  return %1#1, %2#2 : tensor<4xi32>, tensor<4xf32>
}

// -----

// What is written is returned, used or not.
// CHECK-LABEL: func.func @updates
// CHECK: %[[R:.*]] = kernel.extern "torch" "aten._foreach_copy_.default"(%arg0, %arg1) args = {{\[}}[#sym.arg<1>], [#sym.arg<0>], false] projection = [] updates = [1]
// CHECK: return %[[R]]
func.func @updates(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten._foreach_copy_.default"(%x, %out) args = [[#sym.arg<1>], [#sym.arg<0>], false] {node = "copy", updates = array<i64: 1>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// An out= form is what its functional form returns, where that has a lowering; not if `out` has another shape.
// CHECK-LABEL: func.func @out
// CHECK: %[[SUM:.*]] = kernel.map
// CHECK: arith.addf
// CHECK: %[[WIDE:.*]] = kernel.extern "torch" "aten.add.out"(%arg0, %arg1, %arg3) {{.*}} updates = [2]
// CHECK-NOT: kernel.map
// CHECK: return %[[SUM]], %[[SUM]], %[[WIDE]]
func.func @out(%x: tensor<4xf32>, %y: tensor<4xf32>, %out: tensor<4xf32>, %wide: tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) {
  %0:2 = torch.call "aten.add.out"(%x, %y, %out) args = [#sym.arg<0>, #sym.arg<1>, 1, #sym.arg<2>] {node = "a", updates = array<i64: 2>}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %1:2 = torch.call "aten.add.out"(%x, %y, %wide) args = [#sym.arg<0>, #sym.arg<1>, 1, #sym.arg<2>] {node = "b", updates = array<i64: 2>}
      : (tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %0#0, %0#1, %1#1 : tensor<4xf32>, tensor<4xf32>, tensor<8xf32>
}

// -----

// A case that a lowering refuses leaves nothing of what it had begun.
// CHECK-LABEL: func.func @refused
// CHECK-NEXT: kernel.extern "torch" "aten.conv2d.default"(%arg0, %arg0)
// CHECK-NEXT: return
func.func @refused(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.call "aten.conv2d.default"(%x, %x) args = [#sym.arg<0>, #sym.arg<1>, unit, [1, 1], [0, 0], [1, 1], 1] {node = "conv"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Sizes that only the results say: they are read back, memory of such sizes is there from then on, and then come the results. What
// is not the symbol itself is solved for it.
// CHECK-LABEL: func.func @sizes
// CHECK: %[[R:.*]]:4 = kernel.extern "torch" "lib.op.default"(%arg0, %arg1) {{.*}} projection = [] sizes = [0, 1, 0, 0] updates = [1] impure : {{.*}} -> (tensor<i64>, tensor<i64>, tensor<i64>, tensor<4xf32>)
// CHECK: kernel.define "u1" from %[[R]]#0
// CHECK: %[[U0:.*]] = kernel.map
// CHECK: arith.subi
// CHECK: arith.divsi
// CHECK: kernel.define "u0" from %[[U0]]
// CHECK: %[[Y:.*]]:2 = kernel.extern "torch" "kiln.results"(%[[R]]#2) args = [#sym.arg<0>] projection = [0, 2] impure
// CHECK: return %[[Y]]#0, %[[Y]]#1, %[[R]]#3
module attributes {sym.symbols = {u0 = {min = 0 : i64}, u1 = {min = 0 : i64}}} {
  func.func @sizes(%x: tensor<4xf32>, %out: tensor<4xf32>) -> (tensor<?x?xf32, #sym.shape<[2*u0 + u1, u1]>>, tensor<i64>, tensor<4xf32>) {
    %0:4 = torch.call "lib.op.default"(%x, %out) args = [#sym.arg<0>, #sym.arg<1>]
        {node = "op", names = ["", ""], defines = ["u0", "u1"], updates = array<i64: 1>, values = [unit, unit, #sym.expr<u1>, unit]}
        : (tensor<4xf32>, tensor<4xf32>) -> (tensor<?x?xf32, #sym.shape<[2*u0 + u1, u1]>>, none, tensor<i64>, tensor<4xf32>)
    return %0#0, %0#2, %0#3 : tensor<?x?xf32, #sym.shape<[2*u0 + u1, u1]>>, tensor<i64>, tensor<4xf32>
  }
}

// -----

// A C function of the model itself, which gives all results, used or not.
// CHECK-LABEL: func.func @function
// CHECK: kernel.extern "c" "my_scale"(%arg0) args = [#sym.arg<0>, 1.500000e+00] projection = [0, 1] impure : (tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>)
func.func @function(%x: tensor<4xf32>) -> tensor<2xf32> {
  %0:2 = torch.call "lib.scale.default"(%x) args = [#sym.arg<0>, 1.5] {node = "a", torch.symbol = "my_scale", torch.writes = array<i64>} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>)
  return %0#1 : tensor<2xf32>
}
