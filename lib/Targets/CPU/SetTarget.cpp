// cpu-set-target: puts the description of a CPU on the module, for the passes that lay out operands
// and for planners.
#include "kiln/Targets/CPU/Passes.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUSETTARGET
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

struct SetTarget : kiln::cpu::impl::CpuSetTargetBase<SetTarget> {
  using CpuSetTargetBase::CpuSetTargetBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (module->hasAttr(targetAttrName))
      return;
    llvm::Expected<CPUInfo> info = CPUInfo::get(cpu, tune);
    if (!info) {
      module.emitError(llvm::toString(info.takeError()));
      return signalPassFailure();
    }
    module->setAttr(targetAttrName, TargetAttr::get(&getContext(), info->name, *info));
  }
};

} // namespace
