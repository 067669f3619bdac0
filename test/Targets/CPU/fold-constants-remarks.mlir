// Says of maps of constants why they are left to every run, in the last run of the pass; and how kernels are run.
// RUN: kiln-opt %s --cpu-fold-constants=views=true --kernel-outline --remarks-filter=cpu-fold-constants --mlir-disable-threading -o %t.out 2>&1 | FileCheck %s
// RUN: kiln-opt %t.out --pass-pipeline='builtin.module(kernel.func(cpu-choose-schedule))' --remarks-filter=cpu-choose-schedule --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// RUN: kiln-opt %s --cpu-fold-constants --remarks-filter=cpu-fold-constants --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s --check-prefix=FIRST --allow-empty
// FIRST-NOT: remark

// SCHEDULE: Remark="kernel @map_0: #{{[a-z_.]+}}<{{.*}}>, #kernel.launch<
// CHECK: [Missed] NotFolded
// CHECK-SAME: Reason="it is much larger than what it is computed of, which takes less time to read", Remark="computed of constants in every run", Where="node 'expand' (model.py:3)"
func.func @expand() -> tensor<512x512xf32> {
  %w = kernel.constant "w" dense<2.0> : tensor<2xf32> : tensor<2xf32>
  %y = kernel.map {
    %a = kernel.read %w (d0, d1) -> (0) : tensor<2xf32> -> f32
    %s = arith.addf %a, %a : f32
    kernel.yield %s : f32
  } : tensor<512x512xf32> loc("expand"("model.py":3:0))
  return %y : tensor<512x512xf32>
}
