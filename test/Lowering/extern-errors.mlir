// RUN: kiln-opt %s --torch-lower-to-kernel="fallback=torch" --verify-diagnostics --split-input-file

// What no library can run; all in one message.
func.func @all(%x: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error-re@+1 {{cannot compile _operator.invert: it has no lowering ({{.*}}); lib.op.default: an operator as an argument ({{.*}}); lib.op.default: a script object as an argument ({{.*}}); lib.op.default: a dictionary as an argument ({{.*}}); lib.op.default: nothing in its results has the value of u0 ({{.*}}); aten._reshape_alias.default: its result depends on strides or shared memory, which only a lowering could know ({{.*}}); aten.is_set_to.default: its result depends on strides or shared memory, which only a lowering could know ({{.*}})}}
  %0 = torch.call "_operator.invert"() args = [1] {node = "invert"} : () -> tensor<f64>
  %1 = torch.call "lib.op.default"(%x) args = [#sym.arg<0>, #torch.operator<"aten.add.Tensor">] {node = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = torch.call "lib.op.default"(%x) args = [#sym.arg<0>, #torch.object<"obj", "my.Class">] {node = "b"} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = torch.call "lib.op.default"(%x) args = [#sym.arg<0>, {a = 1}] {node = "c"} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = torch.call "lib.op.default"(%x) args = [#sym.arg<0>] {node = "d", defines = ["u0"]} : (tensor<4xf32>) -> tensor<?xf32, #sym.shape<[u0*u0]>>
  %5 = torch.call "aten._reshape_alias.default"(%x) args = [#sym.arg<0>, [2], [2]] {node = "e"} : (tensor<4xf32>) -> tensor<2xf32>
  %6 = torch.call "aten.is_set_to.default"(%x) args = [#sym.arg<0>, #sym.arg<0>] {node = "f"} : (tensor<4xf32>) -> tensor<i1>
  return %5 : tensor<2xf32>
}
