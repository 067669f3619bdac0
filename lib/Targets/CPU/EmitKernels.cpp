// cpu-emit-kernels: writes each kernel as a function of the runtime's ABI.
#include "kiln/Targets/CPU/KernelEmitters.h"
#include "kiln/Targets/CPU/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <mutex>

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUEMITKERNELS
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

static LogicalResult emitRoot(KernelFrame &frame) {
  Operation *root = frame.func.getRoot();
  if (auto map = dyn_cast<kernel::MapOp>(root))
    return emitMap(frame, map);
  if (auto contract = dyn_cast<kernel::ContractOp>(root))
    return emitContract(frame, contract);
  if (auto winograd = dyn_cast<kernel::WinogradOp>(root))
    return emitWinograd(frame, winograd);
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

  void runOnOperation() override {
    FailureOr<CPUInfo> known = getTarget(getOperation());
    if (failed(known))
      return signalPassFailure();
    target = *known;
    std::mutex mutex;
    std::map<std::string, KernelFrame::Callee>
        callees; // in an order that does not depend on threads
    auto emit = [&](kernel::FuncOp kernel, LLVM::LLVMFuncOp &function) -> LogicalResult {
      if (!kernel.getScheduleAttr())
        return kernel.emitError("has no schedule: run cpu-choose-schedule first");
      KernelFrame frame(kernel, target);
      function = frame.function;
      if (failed(emitRoot(frame)))
        return failure();
      frame.emitFailures();
      LLVM::ReturnOp::create(frame.builder, frame.loc, ValueRange());
      std::scoped_lock lock(mutex);
      callees.merge(frame.callees);
      return success();
    };
    if (failed(replaceKernels(getOperation(), emit)))
      return signalPassFailure();
    // Before the kernels: these take longest to compile.
    OpBuilder builder = OpBuilder::atBlockBegin(getOperation().getBody());
    for (const auto &[name, callee] : callees)
      builder.insert(emitCallee(name, callee));
  }

  /// Hidden, and the same in every object that has a function of this name.
  LLVM::LLVMFuncOp emitCallee(StringRef name, const KernelFrame::Callee &callee) {
    KernelFrame frame(UnknownLoc::get(&getContext()), name, callee.parameters, target);
    frame.function.setLinkage(LLVM::Linkage::WeakODR);
    frame.function.setVisibility_(LLVM::Visibility::Hidden);
    callee.emitBody(frame);
    LLVM::ReturnOp::create(frame.builder, frame.loc, ValueRange());
    return frame.function;
  }

  CPUInfo target;
};

} // namespace
