// One planner and one emitter for each structured op that CPUs divide in their own way; the others'
// are in kiln/Codegen/KernelEmitters.h. `cpu-choose-schedule` calls the planner of a kernel's root,
// `cpu-emit-kernels` its emitter.
#ifndef KILN_TARGETS_CPU_KERNELEMITTERS_H
#define KILN_TARGETS_CPU_KERNELEMITTERS_H

#include "kiln/Codegen/KernelEmitters.h"
#include "kiln/Targets/CPU/CPUDialect.h"

namespace kiln::codegen {
class BodyEmitter;
} // namespace kiln::codegen

namespace kiln::cpu {

// Each plans the kernel's root; a `schedule` that is already there is kept, and decides the rest.
mlir::FailureOr<codegen::KernelPlan> planMap(kernel::FuncOp func, const codegen::CPUInfo &target);
mlir::FailureOr<codegen::KernelPlan> planContract(kernel::FuncOp func,
                                                  const codegen::CPUInfo &target);
mlir::FailureOr<codegen::KernelPlan> planWinograd(kernel::FuncOp func,
                                                  const codegen::CPUInfo &target);
mlir::FailureOr<codegen::KernelPlan> planAttention(kernel::FuncOp func,
                                                   const codegen::CPUInfo &target);

// Each writes the function's body, with everything but the final llvm.return. The kernel has been
// planned. A failure has been reported on `func`.
mlir::LogicalResult emitMap(codegen::KernelFrame &frame, kernel::MapOp map);
mlir::LogicalResult emitContract(codegen::KernelFrame &frame, kernel::ContractOp contract);
mlir::LogicalResult emitWinograd(codegen::KernelFrame &frame, kernel::WinogradOp winograd);
mlir::LogicalResult emitAttention(codegen::KernelFrame &frame, kernel::AttentionOp attention);

/// The larger of a score and the largest so far; the latter if the score is NaN, which the
/// exponential brings out again.
mlir::Value emitMax(codegen::KernelFrame &frame, mlir::Value score, mlir::Value largest);
/// The `score` of an attention's scaled product and bias, which is null if there is none: numbers, or
/// vectors of `lanes` of them.
mlir::Value emitScore(codegen::BodyEmitter &score, mlir::Value product, mlir::Value bias,
                      int64_t lanes);

} // namespace kiln::cpu

#endif // KILN_TARGETS_CPU_KERNELEMITTERS_H
