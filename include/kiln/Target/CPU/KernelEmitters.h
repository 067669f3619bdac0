// One planner and one emitter for each structured op. `cpu-choose-schedule` calls the planner of a
// kernel's root, `cpu-emit-kernels` its emitter.
#ifndef KILN_TARGET_CPU_KERNELEMITTERS_H
#define KILN_TARGET_CPU_KERNELEMITTERS_H

#include "kiln/Target/CPU/KernelFrame.h"

namespace kiln::cpu {

struct KernelPlan {
  kernel::ScheduleAttr schedule;
  /// Number of tasks, over symbols.
  sym::Expr grid;
  /// Private memory of a task.
  int64_t scratchBytes = 0;
};

// Each plans the kernel's root; a `schedule` that is already there is kept, and decides the rest.
mlir::FailureOr<KernelPlan> planMap(kernel::FuncOp func, const TargetInfo &target);
mlir::FailureOr<KernelPlan> planContract(kernel::FuncOp func, const TargetInfo &target);
mlir::FailureOr<KernelPlan> planAttention(kernel::FuncOp func, const TargetInfo &target);
mlir::FailureOr<KernelPlan> planScan(kernel::FuncOp func, const TargetInfo &target);
mlir::FailureOr<KernelPlan> planScatter(kernel::FuncOp func, const TargetInfo &target);
mlir::FailureOr<KernelPlan> planSort(kernel::FuncOp func, const TargetInfo &target);
mlir::FailureOr<KernelPlan> planRepeat(kernel::FuncOp func, const TargetInfo &target);

// Each writes the function's body, with everything but the final llvm.return. The kernel has been
// planned. A failure has been reported on `func`.
mlir::LogicalResult emitMap(KernelFrame &frame, kernel::MapOp map);
mlir::LogicalResult emitContract(KernelFrame &frame, kernel::ContractOp contract);
mlir::LogicalResult emitAttention(KernelFrame &frame, kernel::AttentionOp attention);
mlir::LogicalResult emitScan(KernelFrame &frame, kernel::ScanOp scan);
mlir::LogicalResult emitScatter(KernelFrame &frame, kernel::ScatterOp scatter);
mlir::LogicalResult emitSort(KernelFrame &frame, kernel::SortOp sort);
mlir::LogicalResult emitRepeat(KernelFrame &frame, kernel::RepeatOp repeat);

/// Replaces each kernel of `module` by the function that `emit` writes, several at a time. `emit`
/// sets its second argument before anything fails; with a failure the kernels stay as they are.
mlir::LogicalResult replaceKernels(
    mlir::ModuleOp module,
    llvm::function_ref<mlir::LogicalResult(kernel::FuncOp, mlir::LLVM::LLVMFuncOp &)> emit);

/// The larger of a score and the largest so far; the latter if the score is NaN, which the
/// exponential brings out again.
mlir::Value emitMax(KernelFrame &frame, mlir::Value score, mlir::Value largest);

/// Fails, with an error on the op, if code generation for CPUs has no register for a value in
/// `op`'s regions.
mlir::LogicalResult verifyValueTypes(mlir::Operation *op);

/// What planning left on the kernel: attributes `grid` (#sym.expr) and `scratch` (i64, bytes).
sym::Expr getGrid(kernel::FuncOp func);
int64_t getScratchBytes(kernel::FuncOp func);

/// The symbol of what a launch on a device is given for a kernel: a kiln_rt_device_kernel
/// (runtime/cuda/device.h).
std::string getDeviceKernelSymbol(llvm::StringRef kernel);
/// The symbol of what a run knows of all of them: a kiln_rt_device.
inline constexpr llvm::StringLiteral deviceTableName = "kiln_device";
/// The attribute of a kernel.func that is planned for a device: threads of a block.
inline constexpr llvm::StringLiteral threadsAttrName = "threads";
/// The runtime's own, which every model for a device has: copies tensors that are not contiguous.
inline constexpr llvm::StringLiteral copyKernelName = "strided_copy";

} // namespace kiln::cpu

#endif // KILN_TARGET_CPU_KERNELEMITTERS_H
