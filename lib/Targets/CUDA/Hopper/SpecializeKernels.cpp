#include "CUDA/Hopper/WarpgroupAttention.h"
#include "CUDA/Hopper/WarpgroupPlan.h"
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
      if (auto operands = findWarpgroupOperands(func))
        addVariant(func, planWarpgroupContract(func, *operands));
      else if (auto operands = findWarpgroupAttention(func))
        addVariant(func, planWarpgroupAttention(func, *operands));
    }
  }

  void addVariant(kernel::FuncOp func, const KernelPlan &plan) {
    OpBuilder builder(func);
    builder.setInsertionPointAfter(func);
    auto variant = cast<kernel::FuncOp>(builder.clone(*func));
    variant.setSymName((func.getSymName() + "_sm_90a").str());
    variant->setAttr(variantAttrName, FlatSymbolRefAttr::get(func.getSymNameAttr()));
    variant.setScheduleAttr(plan.schedule);
    variant.setLaunchAttr(plan.launch());
    if (!remarks)
      return;
    InFlightDiagnostic remark = variant.emitRemark();
    remark << "runs as " << plan.schedule << ": " << plan.reason;
    if (plan.cycles)
      remark << ", about " << *plan.cycles;
  }
};

} // namespace
