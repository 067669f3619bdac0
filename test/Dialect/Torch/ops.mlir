// RUN: kiln-opt %s | kiln-opt | FileCheck %s

// CHECK: module attributes {sym.symbols = {s0 = {max = 64 : i64, min = 2 : i64}}}
module attributes {sym.symbols = {s0 = {min = 2, max = 64}}} {

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x8xf32> {torch.name = "x", torch.strides = #sym.shape<[8, 1]>})
    -> (tensor<2x8xf32> {torch.name = "a"}, tensor<i64> {torch.value = #sym.expr<2*s0>}, none) {
  // CHECK: torch.constant "fc.weight" = dense<1.000000e+00> : tensor<10x4xf32> {aliases = ["tied"], kind = "parameter"}
  %w = torch.constant "fc.weight" = dense<1.0> : tensor<10x4xf32> {kind = "parameter", aliases = ["tied"]}
  // CHECK: torch.constant "steps" = dense_resource<steps> : tensor<2xi1> {kind = "buffer", mutated, transient}
  %s = torch.constant "steps" = dense_resource<steps> : tensor<2xi1> {kind = "buffer", mutated, transient}
  // CHECK: torch.call "aten.split.Tensor"(%{{.*}}) args = [#sym.arg<0>, 2, 0] {node = "split"} : (tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  %r:2 = torch.call "aten.split.Tensor"(%x) args = [#sym.arg<0>, 2, 0] {node = "split"}
      : (tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  // CHECK: torch.call "aten.zeros.default"() args = {{\[\[}}2, #sym.expr<2*s0>], #sym.dtype<f32>, #sym.layout<strided>, #sym.device<"cpu">, unit]
  %z = torch.call "aten.zeros.default"()
      args = [[2, #sym.expr<s0 + s0>], #sym.dtype<f32>, #sym.layout<strided>, #sym.device<"cpu">, unit]
      {node = "zeros"} : () -> tensor<2x?xf32, #sym.shape<[2, 2*s0]>>
  // CHECK: torch.number #sym.expr<2*s0> -> tensor<i64>
  %n = torch.number #sym.expr<2*s0> -> tensor<i64>
  // CHECK: torch.number 1.500000e+00 : f64 -> tensor<f64>
  %f = torch.number 1.5 : f64 -> tensor<f64>
  // CHECK: torch.call "aten.item.default"({{.*}}) {{.*}} {defines = ["u0"], node = "item", values = [#sym.expr<u0>]}
  %i = torch.call "aten.item.default"(%n) args = [#sym.arg<0>]
      {node = "item", defines = ["u0"], values = [#sym.expr<u0>]} : (tensor<i64>) -> tensor<i64>
  // CHECK: torch.call "aten.mul.Tensor"({{.*}}) args = [#sym.arg<0>, #sym.scalar<1>]
  %m = torch.call "aten.mul.Tensor"(%x, %f) args = [#sym.arg<0>, #sym.scalar<1>] {node = "mul"}
      : (tensor<4x8xf32>, tensor<f64>) -> tensor<4x8xf32>
  // CHECK: torch.call "my.op.default"({{.*}}) args = [#sym.complex<1.000000e+00 : f64, 2.000000e+00 : f64>, #sym.memory_format<channels_last_3d>, #torch.operator<"a.b">, #torch.object<"a", "B">, {k = #sym.arg<0>}] {names = ["a", "b", "c", "d", "e"], node = "my"}
  torch.call "my.op.default"(%x)
      args = [#sym.complex<1.0, 2.0>, #sym.memory_format<channels_last_3d>, #torch.operator<"a.b">,
              #torch.object<"a", "B">, {k = #sym.arg<0>}]
      {node = "my", names = ["a", "b", "c", "d", "e"]} : (tensor<4x8xf32>) -> ()
  // CHECK: torch.higher_order "cond"({{.*}}) args = [#sym.arg<0>, @branch, [#sym.expr<s0>]] {node = "cond"}
  %c = torch.higher_order "cond"(%n) args = [#sym.arg<0>, @branch, [#sym.expr<s0>]] {node = "cond"}
      : (tensor<i64>) -> tensor<i64>
  // What the operator would write to operand 0 is a result.
  // CHECK: torch.call "aten._foreach_neg_.default"(%{{.*}}) args = {{\[}}[#sym.arg<0>]] {node = "neg_", updates = array<i64: 0>}
  %u = torch.call "aten._foreach_neg_.default"(%n) args = [[#sym.arg<0>]] {node = "neg_", updates = array<i64: 0>}
      : (tensor<i64>) -> tensor<i64>
  // CHECK: torch.none : none
  %none = torch.none : none
  return %r#0, %n, %none : tensor<2x8xf32>, tensor<i64>, none
}

func.func private @branch(%a: tensor<i64>) -> tensor<i64> {
  return %a : tensor<i64>
}

}

{-#
  dialect_resources: {
    builtin: {
      steps: "0x010000000100"
    }
  }
#-}
