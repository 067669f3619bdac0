// RUN: kiln-opt %s --load-plugin=%extern_test --mark-extern="generators=test" --outline-extern --split-input-file | FileCheck %s
// RUN: kiln-opt %s --load-plugin=%extern_test --mark-extern="generators=test" --outline-extern --mark-extern="generators=test" --outline-extern --split-input-file | FileCheck %s

// Equal subgraphs share a function, under whatever names their sizes have; another structure has another one. What was outlined is
// not outlined again.
// CHECK-LABEL: func.func @reuse
// CHECK: kernel.invoke_extern @[[RELU:extern_test_relu_[0-9a-f]+]](%arg0) symbols [s0, s1]
// CHECK: kernel.invoke_extern @[[RELU]](%arg1) symbols [s2, s0]
// CHECK: kernel.invoke_extern @[[SQUARE:extern_test_relu_[0-9a-f]+]](%arg2) symbols [s0]
// CHECK-DAG: func.func private @[[RELU]](%arg0: tensor<?x?xf32, #sym.shape<[p.0, p.1]>>) -> tensor<?x?xf32, #sym.shape<[p.0, p.1]>> attributes {kernel.extern = {generator = "test", pattern = "relu"}}
// CHECK-DAG: func.func private @[[SQUARE]](%arg0: tensor<?x?xf32, #sym.shape<[p.0, p.0]>>)
// CHECK-NOT: func.func private
func.func @reuse(%x: tensor<?x?xf32, #sym.shape<[s0, s1]>>, %y: tensor<?x?xf32, #sym.shape<[s2, s0]>>, %z: tensor<?x?xf32, #sym.shape<[s0, s0]>>)
    -> (tensor<?x?xf32, #sym.shape<[s0, s1]>>, tensor<?x?xf32, #sym.shape<[s2, s0]>>, tensor<?x?xf32, #sym.shape<[s0, s0]>>) {
  %0 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "a"} : (tensor<?x?xf32, #sym.shape<[s0, s1]>>) -> tensor<?x?xf32, #sym.shape<[s0, s1]>>
  %1 = torch.call "aten.relu.default"(%y) args = [#sym.arg<0>] {node = "b"} : (tensor<?x?xf32, #sym.shape<[s2, s0]>>) -> tensor<?x?xf32, #sym.shape<[s2, s0]>>
  %2 = torch.call "aten.relu.default"(%z) args = [#sym.arg<0>] {node = "c"} : (tensor<?x?xf32, #sym.shape<[s0, s0]>>) -> tensor<?x?xf32, #sym.shape<[s0, s0]>>
  return %0, %1, %2 : tensor<?x?xf32, #sym.shape<[s0, s1]>>, tensor<?x?xf32, #sym.shape<[s2, s0]>>, tensor<?x?xf32, #sym.shape<[s0, s0]>>
}

// -----

// Modules that are compiled apart agree on the name. Here somebody else has it already.
// CHECK-LABEL: func.func @first
// CHECK: kernel.invoke_extern @extern_test_relu_c0b1a050(
func.func @first(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "first"} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @second
// CHECK: kernel.invoke_extern @extern_test_relu_c0b1a050_1(
// CHECK: func.func @extern_test_relu_c0b1a050(
// CHECK: func.func private @extern_test_relu_c0b1a050_1(
func.func @second(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = "second"} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @extern_test_relu_c0b1a050(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// A constant is captured where the pattern asks for that, and tells functions apart; a parameter is passed, since it can be replaced.
// CHECK-LABEL: func.func @constants
// CHECK: torch.constant "w"
// CHECK: kernel.invoke_extern @[[TWO:[a-z_0-9]+]](%arg0) symbols []
// CHECK: kernel.invoke_extern @[[THREE:[a-z_0-9]+]](%arg0) symbols []
// CHECK: kernel.invoke_extern @[[TWO]](%arg0) symbols []
// CHECK: kernel.invoke_extern @[[W:[a-z_0-9]+]](%arg0, %{{.*}}) symbols []
// CHECK: func.func private @[[TWO]](%arg0: tensor<2xf32>)
// CHECK-NEXT: torch.constant "two" = dense<2.000000e+00>
// CHECK: func.func private @[[THREE]](%arg0: tensor<2xf32>)
// CHECK-NEXT: torch.constant "three" = dense<3.000000e+00>
// CHECK: func.func private @[[W]](%arg0: tensor<2xf32>, %arg1: tensor<2xf32>)
func.func @constants(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %two = torch.constant "two" = dense<2.0> : tensor<2xf32> {kind = "constant"}
  %three = torch.constant "three" = dense<3.0> : tensor<2xf32> {kind = "constant"}
  %w = torch.constant "w" = dense<2.0> : tensor<2xf32> {kind = "parameter"}
  %0 = torch.call "aten.mul.Tensor"(%x, %two) args = [#sym.arg<0>, #sym.arg<1>] {node = "a"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = torch.call "aten.mul.Tensor"(%x, %three) args = [#sym.arg<0>, #sym.arg<1>] {node = "b"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = torch.call "aten.mul.Tensor"(%x, %two) args = [#sym.arg<0>, #sym.arg<1>] {node = "c"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = torch.call "aten.mul.Tensor"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>] {node = "d"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0, %1, %2, %3 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// A pattern marked inline is outlined, too: by its pattern, and as a function that somebody has marked as a whole.
// CHECK-LABEL: func.func @inline
// CHECK: kernel.invoke_extern @[[SIGMOID:extern_test_sigmoid_[0-9a-f]+]](%arg0)
// CHECK: kernel.invoke_extern @[[WHOLE:extern_test_whole_[0-9a-f]+]](%arg0)
// CHECK: kernel.invoke_extern @[[WHOLE]](%{{.*}})
// CHECK-NOT: @by_hand
// CHECK: func.func private @[[SIGMOID]]{{.*}} attributes {kernel.extern = {generator = "test", inline, pattern = "sigmoid"}}
// CHECK: func.func private @[[WHOLE]]{{.*}} attributes {kernel.extern = {generator = "test", inline, pattern = "whole"}}
// CHECK-NOT: func.func
func.func @inline(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = torch.call "aten.sigmoid.default"(%x) args = [#sym.arg<0>] {node = "a"} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @by_hand(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = call @by_hand_too(%1) : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %2 : tensor<8xf32>, tensor<8xf32>
}
func.func private @by_hand(%x: tensor<8xf32>) -> tensor<8xf32> attributes {kernel.extern = {generator = "test", pattern = "whole", inline}} {
  %0 = torch.call "aten.exp.default"(%x) args = [#sym.arg<0>] {node = "exp"} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @by_hand_too(%x: tensor<8xf32>) -> tensor<8xf32> attributes {kernel.extern = {generator = "test", pattern = "whole", inline}} {
  %0 = torch.call "aten.exp.default"(%x) args = [#sym.arg<0>] {node = "exp_1"} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Several results, in the order that the pattern gives.
// CHECK-LABEL: func.func @results
// CHECK: %[[R:.*]]:2 = kernel.invoke_extern @[[WAVE:[a-z_0-9]+]](%arg0)
// CHECK: return %[[R]]#1, %[[R]]#0
// CHECK: func.func private @[[WAVE]]
// CHECK: %[[SIN:.*]] = torch.call "aten.sin.default"
// CHECK: %[[COS:.*]] = torch.call "aten.cos.default"
// CHECK: return %[[SIN]], %[[COS]]
func.func @results(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = torch.call "aten.sin.default"(%x) args = [#sym.arg<0>] {node = "sin"} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = torch.call "aten.cos.default"(%0) args = [#sym.arg<0>] {node = "cos"} : (tensor<8xf32>) -> tensor<8xf32>
  return %1, %0 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Values that regions of an op read from outside are operands, in nested regions, too; symbols in maps are the function's own.
// CHECK-LABEL: func.func @nested_regions
// CHECK: kernel.invoke_extern @[[MAP:[a-z_0-9]+]](%arg0, %arg1) symbols [s0]
// CHECK: kernel.invoke_extern @[[MAP]](%arg0, %arg1) symbols [s0]
// CHECK: func.func private @[[MAP]](%arg0: tensor<?xf64, #sym.shape<[p.0]>>, %arg1: tensor<?x4xf64, #sym.shape<[p.0, 4]>>)
// CHECK: kernel.map
// CHECK: kernel.read %arg0 (d0) -> (p.0 - d0 - 1)
// CHECK: kernel.reduce
// CHECK: kernel.read %arg1
func.func @nested_regions(%x: tensor<?xf64, #sym.shape<[s0]>>, %y: tensor<?x4xf64, #sym.shape<[s0, 4]>>) -> (tensor<?xf64, #sym.shape<[s0]>>, tensor<?xf64, #sym.shape<[s0]>>) {
  %0 = kernel.map {
    %r = kernel.read %x (d0) -> (s0 - d0 - 1) : tensor<?xf64, #sym.shape<[s0]>> -> f64
    %zero = arith.constant 0.0 : f64
    %sum = kernel.reduce [4] init(%zero : f64) {
      %e = kernel.read %y (d0, d1) -> (d0, d1) : tensor<?x4xf64, #sym.shape<[s0, 4]>> -> f64
      kernel.yield %e : f64
    } combine {
    ^bb0(%a: f64, %b: f64):
      %c = arith.addf %a, %b : f64
      kernel.yield %c : f64
    } : f64
    %v = arith.addf %r, %sum : f64
    kernel.yield %v : f64
  } : tensor<?xf64, #sym.shape<[s0]>>
  %1 = kernel.map {
    %r = kernel.read %x (d0) -> (s0 - d0 - 1) : tensor<?xf64, #sym.shape<[s0]>> -> f64
    %zero = arith.constant 0.0 : f64
    %sum = kernel.reduce [4] init(%zero : f64) {
      %e = kernel.read %y (d0, d1) -> (d0, d1) : tensor<?x4xf64, #sym.shape<[s0, 4]>> -> f64
      kernel.yield %e : f64
    } combine {
    ^bb0(%a: f64, %b: f64):
      %c = arith.addf %a, %b : f64
      kernel.yield %c : f64
    } : f64
    %v = arith.addf %r, %sum : f64
    kernel.yield %v : f64
  } : tensor<?xf64, #sym.shape<[s0]>>
  return %0, %1 : tensor<?xf64, #sym.shape<[s0]>>, tensor<?xf64, #sym.shape<[s0]>>
}
