// cuda-specialize-kernels: gives products and attention a variant for Hopper.
#include "CUDA/Hopper/Variants.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Targets/CUDA/Passes.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDASPECIALIZEKERNELS
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {

struct SpecializeKernels : kiln::cuda::impl::CudaSpecializeKernelsBase<SpecializeKernels> {
  using CudaSpecializeKernelsBase::CudaSpecializeKernelsBase;

  void runOnOperation() override {
    for (auto func : llvm::to_vector(getOperation().getOps<kernel::FuncOp>())) {
      if (func->hasAttr(variantAttrName))
        continue;
      const char *reason = nullptr;
      FailureOr<std::optional<KernelPlan>> plan = planVariant(func, reason);
      if (failed(plan))
        return signalPassFailure();
      if (*plan)
        addVariant(func, **plan);
      else if (reason)
        emitRemark(RemarkKind::NotDone, func.getRoot(), getArgument(), "NoVariant", [&] {
          return RemarkText{"kernel @" + func.getSymName().str() +
                                " has no variant for compute capability 9.0",
                            reason};
        });
    }
  }

  void addVariant(kernel::FuncOp func, const KernelPlan &plan) {
    OpBuilder builder(func);
    builder.setInsertionPointAfter(func);
    auto variant = cast<kernel::FuncOp>(builder.clone(*func));
    variant.setSymName((func.getSymName() + "_sm_90a").str());
    variant->setAttr(variantAttrName, FlatSymbolRefAttr::get(func.getSymNameAttr()));
    variant->removeAttr(variantScheduleAttrName);
    variant.setScheduleAttr(plan.schedule);
    variant.setLaunchAttr(plan.launch());
    emitRemark(RemarkKind::Done, func.getRoot(), getArgument(), "Variant", [&] {
      return RemarkText{describeSchedule(variant), plan.reason.str(), plan.cycles};
    });
  }
};

} // namespace
