// Puts the description of a GPU on the module, for the passes that divide work and for planners.
#include "kiln/Targets/CUDA/Passes.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDASETTARGET
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {

struct SetTarget : kiln::cuda::impl::CudaSetTargetBase<SetTarget> {
  using CudaSetTargetBase::CudaSetTargetBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (module->hasAttr(targetAttrName))
      return;
    TargetAttr target = getTarget(&getContext(), arch);
    if (!target) {
      module.emitError("kernels cannot be planned for '")
          << arch << "': known GPUs are those of " << llvm::join(getKnownArchitectures(), ", ");
      return signalPassFailure();
    }
    module->setAttr(targetAttrName, target);
  }
};

} // namespace
