// cuda-specialize-kernels: gives products and attention variants for Hopper and Blackwell.
#include "CUDA/Contract/Float8Operand.h"
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
    kernel::FuncOp ofFloat8 = cloneWithFloat8(func);
    FailureOr<std::optional<KernelPlan>> plan =
        planVariant(ofFloat8 ? ofFloat8 : func, architecture, reason);
    if (ofFloat8 && (failed(plan) || !*plan)) {
      ofFloat8.erase();
      ofFloat8 = {};
      plan = planVariant(func, architecture, reason);
    }
    if (failed(plan))
      return failure();
    if (*plan)
      addVariant(func, ofFloat8 ? ofFloat8 : clone(func), architecture, **plan);
    else if (reason)
      emitRemark(RemarkKind::NotDone, func.getRoot(), getArgument(), "NoVariant", [&] {
        return RemarkText{
            "kernel @" + func.getSymName().str() + " has no variant for compute capability " +
                std::to_string(architecture / 10) + "." + std::to_string(architecture % 10),
            reason};
      });
    return success();
  }

  static kernel::FuncOp clone(kernel::FuncOp func) {
    OpBuilder builder(func);
    builder.setInsertionPointAfter(func);
    return cast<kernel::FuncOp>(builder.clone(*func));
  }

  /// A copy that multiplies floats of eight bits as they are; null: there are none.
  static kernel::FuncOp cloneWithFloat8(kernel::FuncOp func) {
    auto contract = dyn_cast<kernel::ContractOp>(func.getRoot());
    FloatType type = contract ? findFloat8(contract) : FloatType();
    if (!type)
      return {};
    kernel::FuncOp copy = clone(func);
    yieldFloat8(cast<kernel::ContractOp>(copy.getRoot()), type);
    return copy;
  }

  /// `variant` is a copy of the kernel.
  void addVariant(kernel::FuncOp func, kernel::FuncOp variant, unsigned architecture,
                  const KernelPlan &plan) {
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
