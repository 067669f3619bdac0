// Code that every target shares for kernels that have been planned.
#include "kiln/Codegen/KernelEmitters.h"
#include "mlir/IR/Threading.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

sym::Expr codegen::getGrid(kernel::FuncOp func) {
  kernel::LaunchAttr launch = func.getLaunchAttr();
  return launch ? launch.getGrid().getValue() : sym::Expr::invalid();
}

int64_t codegen::getScratchBytes(kernel::FuncOp func) {
  kernel::LaunchAttr launch = func.getLaunchAttr();
  return launch ? launch.getScratch() : 0;
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
    builder.insert(function);
    kernel.erase();
  }
  return success();
}
