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
    auto kernels = llvm::to_vector(getOperation().getOps<kernel::FuncOp>());
    SmallVector<LLVM::LLVMFuncOp> functions(kernels.size());
    auto emitOne = [&](size_t i) -> LogicalResult {
      if (!kernels[i].getScheduleAttr())
        return kernels[i].emitError("has no schedule: run cpu-choose-schedule first");
      KernelFrame frame(kernels[i], target);
      functions[i] = frame.function;
      if (failed(emitRoot(frame)))
        return failure();
      LLVM::ReturnOp::create(frame.builder, frame.loc, ValueRange());
      return success();
    };
    LogicalResult emitted = failableParallelForEachN(&getContext(), 0, kernels.size(), emitOne);
    if (failed(emitted)) {
      for (LLVM::LLVMFuncOp function : functions)
        if (function)
          function->erase();
      return signalPassFailure();
    }
    OpBuilder builder(&getContext());
    for (auto [kernel, function] : llvm::zip(kernels, functions)) {
      builder.setInsertionPoint(kernel);
      builder.insert(function);
      kernel.erase();
    }
  }

  TargetInfo target;
};

} // namespace
