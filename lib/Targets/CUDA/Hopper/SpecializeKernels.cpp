// cuda-specialize-kernels: gives products and attention variants for Hopper and Blackwell.
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
    SmallVector<unsigned> variants(architectures.begin(), architectures.end());
    if (variants.empty())
      variants.push_back(hopper);
    for (auto func : llvm::to_vector(getOperation().getOps<kernel::FuncOp>())) {
      if (func->hasAttr(variantAttrName))
        continue;
      // Each goes right behind the kernel.
      for (unsigned architecture : llvm::reverse(variants))
        if (failed(specialize(func, architecture)))
          return signalPassFailure();
    }
  }

  LogicalResult specialize(kernel::FuncOp func, unsigned architecture) {
    const char *reason = nullptr;
    FailureOr<std::optional<KernelPlan>> plan = planVariant(func, architecture, reason);
    if (failed(plan))
      return failure();
    if (*plan)
      addVariant(func, architecture, **plan);
    else if (reason)
      emitRemark(RemarkKind::NotDone, func.getRoot(), getArgument(), "NoVariant", [&] {
        return RemarkText{
            "kernel @" + func.getSymName().str() + " has no variant for compute capability " +
                std::to_string(architecture / 10) + "." + std::to_string(architecture % 10),
            reason};
      });
    return success();
  }

  void addVariant(kernel::FuncOp func, unsigned architecture, const KernelPlan &plan) {
    OpBuilder builder(func);
    builder.setInsertionPointAfter(func);
    auto variant = cast<kernel::FuncOp>(builder.clone(*func));
    variant.setSymName((func.getSymName() + "_sm_" + std::to_string(architecture) + "a").str());
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
