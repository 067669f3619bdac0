// Plans of kernels, and the planners and emitters of the ordered ops, which run one task by itself
// on any target.
#ifndef KILN_CODEGEN_KERNELEMITTERS_H
#define KILN_CODEGEN_KERNELEMITTERS_H

#include "kiln/Codegen/CodegenDialect.h"
#include "kiln/Codegen/KernelFrame.h"

namespace kiln::codegen {

struct KernelPlan {
  kernel::ScheduleAttrInterface schedule;
  /// Number of tasks, over symbols.
  sym::Expr grid = {};
  /// Private memory of a task.
  int64_t scratchBytes = 0;
  /// Estimated cycles of all tasks together, where the planner counts some.
  std::optional<double> cycles = std::nullopt;
  /// The reason for this schedule in a few words; empty: it was given.
  std::string reason = {};
};

/// The kernel's schedule if it has one: null if not, a failure that is reported on `func` if it is
/// one of another kind.
template <typename Schedule> mlir::FailureOr<Schedule> getGivenSchedule(kernel::FuncOp func) {
  kernel::ScheduleAttrInterface given = func.getScheduleAttr();
  auto schedule = llvm::dyn_cast_if_present<Schedule>(given);
  if (given && !schedule)
    return func.emitError() << "has schedule " << given << ", expected #" << Schedule::name;
  return schedule;
}

struct RowTasks;
/// The plan of rows that take about `rowCycles`.
KernelPlan planRows(kernel::ScheduleAttrInterface schedule, const RowTasks &tasks,
                    double rowCycles);
/// Tasks of as little as can be by itself: a row, and a column where they are independent.
kernel::ScheduleAttrInterface getSmallestTasks(mlir::Operation *root);
/// True if places of `scatter` that may write one element are told apart only by running one after
/// the other, though all of the batch goes to the same targets.
bool haveOrderedPlaces(kernel::ScatterOp scatter);
/// How rows are sorted, of which a task has `rows`.
SortAttr getSortSchedule(kernel::SortOp sort, int64_t rows, int64_t lanes);

// Each plans the kernel's root; a `schedule` that is already there is kept, and decides the rest.
mlir::FailureOr<KernelPlan> planScan(kernel::FuncOp func, const CPUInfo &target);
mlir::FailureOr<KernelPlan> planScatter(kernel::FuncOp func, const CPUInfo &target);
mlir::FailureOr<KernelPlan> planSort(kernel::FuncOp func, const CPUInfo &target);
mlir::FailureOr<KernelPlan> planRepeat(kernel::FuncOp func, const CPUInfo &target);

// Each writes the function's body, with everything but the final llvm.return. The kernel has been
// planned. A failure has been reported on `func`.
mlir::LogicalResult emitScan(KernelFrame &frame, kernel::ScanOp scan);
mlir::LogicalResult emitScatter(KernelFrame &frame, kernel::ScatterOp scatter);
mlir::LogicalResult emitSort(KernelFrame &frame, kernel::SortOp sort);
mlir::LogicalResult emitRepeat(KernelFrame &frame, kernel::RepeatOp repeat);

/// Replaces each kernel of `module` by the function that `emit` writes, several at a time. `emit`
/// sets its second argument before anything fails; with a failure the kernels stay as they are.
mlir::LogicalResult replaceKernels(
    mlir::ModuleOp module,
    llvm::function_ref<mlir::LogicalResult(kernel::FuncOp, mlir::LLVM::LLVMFuncOp &)> emit);

/// Fails, with an error on the op, if code generation has no register for a value in `op`'s
/// regions.
mlir::LogicalResult verifyValueTypes(mlir::Operation *op);

/// The kernel's launch: invalid, or 0 bytes, before it is planned.
sym::Expr getGrid(kernel::FuncOp func);
int64_t getScratchBytes(kernel::FuncOp func);

/// The kernel's schedule; null if it has none, or one of another kind.
template <typename Schedule> Schedule getSchedule(kernel::FuncOp func) {
  return llvm::dyn_cast_if_present<Schedule>(func.getScheduleAttr());
}

} // namespace kiln::codegen

#endif // KILN_CODEGEN_KERNELEMITTERS_H
