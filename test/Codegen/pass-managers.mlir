// The passes that constant folding runs inside of a pass print and time themselves as all others do.
// RUN: kiln-opt %s --cpu-fold-constants --mlir-print-ir-after=cpu-choose-schedule --mlir-print-ir-after=cpu-emit-kernels --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s
// RUN: kiln-opt %s --cpu-fold-constants --mlir-timing --mlir-timing-display=list -o /dev/null 2>&1 | FileCheck %s --check-prefix=TIMES
// RUN: kiln-opt %s --cpu-fold-constants -o /dev/null 2>&1 | FileCheck %s --check-prefix=QUIET --allow-empty
// QUIET-NOT: {{.}}

// CHECK: IR Dump After {{.*}}(cpu-choose-schedule)
// CHECK: kernel.func @fold_0
// CHECK: IR Dump After {{.*}}(cpu-emit-kernels)
// CHECK: llvm.func @fold_0
// TIMES-DAG: ChooseSchedule
// TIMES-DAG: EmitKernels
// TIMES-DAG: FoldConstants
func.func @scale() -> tensor<2xf32> {
  %w = kernel.constant "w" dense<2.0> : tensor<2xf32> : tensor<2xf32>
  %y = kernel.map {
    %a = kernel.read %w (d0) -> (d0) : tensor<2xf32> -> f32
    %p = arith.mulf %a, %a : f32
    kernel.yield %p : f32
  } : tensor<2xf32>
  return %y : tensor<2xf32>
}
