#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELVERIFY
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

struct Verify : kiln::impl::KernelVerifyBase<Verify> {
  void runOnOperation() override {
    llvm::DenseSet<StringRef> called;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.isPublic() && failed(verify(function, called)))
        return signalPassFailure();
    for (auto kernel : getOperation().getOps<FuncOp>())
      if (!called.contains(kernel.getSymName())) { // V2
        kernel.emitOpError("is not called");
        return signalPassFailure();
      }
  }

  LogicalResult verify(func::FuncOp function, llvm::DenseSet<StringRef> &called) {
    for (Operation &op : function.getBody().getOps()) {
      if (!isa<CallOp, ConstantOp, torch::NoneOp, func::ReturnOp>(op)) // V1
        return op.emitOpError("is left after the kernel stage");
      if (auto call = dyn_cast<CallOp>(op))
        called.insert(call.getKernel());
      else if (auto constant = dyn_cast<ConstantOp>(op); constant && constant.getKernel())
        called.insert(*constant.getKernel());
    }
    return success();
  }
};

} // namespace
