#include "kiln/Target/CPU/KernelEmitters.h"
#include "kiln/Target/CPU/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Threading.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUEMITKERNELS
#include "kiln/Target/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

static LogicalResult emitRoot(KernelFrame &frame) {
  Operation *root = frame.func.getRoot();
  if (auto map = dyn_cast<kernel::MapOp>(root))
    return emitMap(frame, map);
  if (auto contract = dyn_cast<kernel::ContractOp>(root))
    return emitContract(frame, contract);
  if (auto attention = dyn_cast<kernel::AttentionOp>(root))
    return emitAttention(frame, attention);
  if (auto scan = dyn_cast<kernel::ScanOp>(root))
    return emitScan(frame, scan);
  if (auto scatter = dyn_cast<kernel::ScatterOp>(root))
    return emitScatter(frame, scatter);
  if (auto repeat = dyn_cast<kernel::RepeatOp>(root))
    return emitRepeat(frame, repeat);
  return emitSort(frame, cast<kernel::SortOp>(root));
}

LogicalResult
cpu::replaceKernels(ModuleOp module,
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

namespace {

struct EmitKernels : kiln::cpu::impl::CpuEmitKernelsBase<EmitKernels> {
  using CpuEmitKernelsBase::CpuEmitKernelsBase;

  LogicalResult initialize(MLIRContext *context) override {
    llvm::Expected<TargetInfo> info = TargetInfo::get(cpu);
    if (!info)
      return emitError(UnknownLoc::get(context), llvm::toString(info.takeError()));
    target = *info;
    return success();
  }

  void runOnOperation() override {
    auto emit = [&](kernel::FuncOp kernel, LLVM::LLVMFuncOp &function) -> LogicalResult {
      if (!kernel.getScheduleAttr())
        return kernel.emitError("has no schedule: run cpu-choose-schedule first");
      KernelFrame frame(kernel, target);
      function = frame.function;
      if (failed(emitRoot(frame)))
        return failure();
      LLVM::ReturnOp::create(frame.builder, frame.loc, ValueRange());
      return success();
    };
    if (failed(replaceKernels(getOperation(), emit)))
      signalPassFailure();
  }

  TargetInfo target;
};

} // namespace
