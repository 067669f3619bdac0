// RUN: kiln-opt %s --torch-list-constants | FileCheck %s

// CHECK: module attributes {torch.constants = [
// CHECK-SAME: {name = "fc.weight", type = tensor<2xf32>},
// CHECK-SAME: {name = "head.weight", storage = "fc.weight", type = tensor<2xf32>},
// CHECK-SAME: {name = "steps", type = tensor<i64>}]}
func.func @main() {
  %0 = torch.constant "fc.weight" = dense<1.0> : tensor<2xf32> {kind = "parameter", aliases = ["head.weight"]}
  %1 = torch.constant "steps" = dense<1> : tensor<i64> {kind = "buffer"}
  // Not the model's state.
  %2 = torch.constant "c0" = dense<1> : tensor<i64> {kind = "constant"}
  return
}
