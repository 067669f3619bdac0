// RUN: kiln-opt %s --load-plugin=%extern_test --mark-extern="generators=test" --outline-extern --generate-extern="generators=test" --split-input-file | FileCheck %s

// The code of each function says how it is called; the workspace is over the function's own symbols. What the generator leaves has none.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @extern_test_add_relu_{{.*}} attributes {kernel.extern = {{.*}}, kernel.extern_code = #kernel.extern_code<library = "test", callee = "add_relu", args = [#sym.arg<0>, #sym.arg<1>], workspace = <4*p.0*p.1>>}
// CHECK: func.func private @extern_test_tanh_{{[0-9a-f]+}}({{.*}} attributes {kernel.extern = {generator = "test", pattern = "tanh"}}
func.func @main(%x: tensor<?x?xf32, #sym.shape<[s0, s1]>>, %y: tensor<?x?xf32, #sym.shape<[s0, s1]>>) -> tensor<?x?xf32, #sym.shape<[s0, s1]>> {
  %0 = torch.call "aten.add.Tensor"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = "add"} : (tensor<?x?xf32, #sym.shape<[s0, s1]>>, tensor<?x?xf32, #sym.shape<[s0, s1]>>) -> tensor<?x?xf32, #sym.shape<[s0, s1]>>
  %1 = torch.call "aten.relu.default"(%0) args = [#sym.arg<0>] {node = "relu"} : (tensor<?x?xf32, #sym.shape<[s0, s1]>>) -> tensor<?x?xf32, #sym.shape<[s0, s1]>>
  %2 = torch.call "aten.tanh.default"(%1) args = [#sym.arg<0>] {node = "tanh"} : (tensor<?x?xf32, #sym.shape<[s0, s1]>>) -> tensor<?x?xf32, #sym.shape<[s0, s1]>>
  return %2 : tensor<?x?xf32, #sym.shape<[s0, s1]>>
}

// -----

// Objects that a generator wants the model to be linked with.
// CHECK: module attributes {kernel.extern_objects = [{contents = "{{.*}}define i32 @kernel_test_neg{{.*}}", format = "llvm", name = "neg.ll"}]}
func.func @object(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = torch.call "aten.neg.default"(%x) args = [#sym.arg<0>] {node = "neg"} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
