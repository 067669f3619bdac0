// Code that every target shares for kernels that have been planned.
#include "kiln/Codegen/KernelEmitters.h"
#include "kiln/Codegen/LoopNest.h"
#include "mlir/IR/Threading.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

/// Types that registers hold; memory holds bool too.
static bool isSupported(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return isa<Float16Type, Float32Type, Float64Type>(complex.getElementType());
  if (auto integer = dyn_cast<IntegerType>(type))
    return llvm::is_contained({1u, 8u, 16u, 32u, 64u}, integer.getWidth());
  return type.isF64() || type.isF32() || type.isF16() || type.isBF16();
}

LogicalResult codegen::verifyValueTypes(Operation *root) {
  WalkResult walked = root->walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (op != root && !isSupported(type)) {
        op->emitError("no code is generated for values of type ") << type;
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

sym::Expr codegen::getGrid(kernel::FuncOp func) {
  kernel::LaunchAttr launch = func.getLaunchAttr();
  return launch ? launch.getGrid().getValue() : sym::Expr::invalid();
}

int64_t codegen::getScratchBytes(kernel::FuncOp func) {
  kernel::LaunchAttr launch = func.getLaunchAttr();
  return launch ? launch.getScratch() : 0;
}

KernelPlan codegen::planRows(kernel::ScheduleAttrInterface schedule, const RowTasks &tasks,
                             double rowCycles) {
  KernelPlan plan{schedule, tasks.grid()};
  plan.cycles = rowCycles * double(estimate(tasks.numRows));
  plan.reason = llvm::formatv("a row takes about {0:f0} cycles: {1} a task", rowCycles,
                              tasks.columnBlock ? "parts of one" : std::to_string(tasks.rowBlock));
  return plan;
}

kernel::ScheduleAttrInterface codegen::getSmallestTasks(Operation *root) {
  MLIRContext *context = root->getContext();
  return llvm::TypeSwitch<Operation *, kernel::ScheduleAttrInterface>(root)
      .Case([&](kernel::ScanOp) { return ScanAttr::get(context, 1, 1, 1); })
      .Case([&](kernel::ScatterOp) { return ScatterAttr::get(context, 1, 1, 1); })
      .Case([&](kernel::SortOp sort) { return getSortSchedule(sort, 1, 1); })
      .Case([&](kernel::RepeatOp) { return RepeatAttr::get(context, 1); })
      .DefaultUnreachable("an ordered op");
}

LogicalResult
codegen::replaceKernels(ModuleOp module,
                        function_ref<LogicalResult(kernel::FuncOp, LLVM::LLVMFuncOp &)> emit) {
  auto kernels = llvm::to_vector(module.getOps<kernel::FuncOp>());
  SmallVector<LLVM::LLVMFuncOp> functions(kernels.size());
  MLIRContext *context = module.getContext();
  if (failed(failableParallelForEachN(context, 0, kernels.size(),
                                      [&](size_t i) { return emit(kernels[i], functions[i]); }))) {
    for (LLVM::LLVMFuncOp function : functions)
      if (function)
        function->erase();
    return failure();
  }
  OpBuilder builder(context);
  for (auto [kernel, function] : llvm::zip(kernels, functions)) {
    builder.setInsertionPoint(kernel);
    if (function)
      builder.insert(function);
    kernel.erase();
  }
  return success();
}
