// A target whose only pass makes products of sums.
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Pipeline/Plugin.h"
#include "kiln/Targets/Target.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace kiln;

namespace {

struct MultiplyForSums : PassWrapper<MultiplyForSums, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MultiplyForSums)
  StringRef getArgument() const override { return "multiply-for-sums"; }

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation().walk([&](arith::AddFOp op) {
      rewriter.setInsertionPoint(op);
      rewriter.replaceOpWithNewOp<arith::MulFOp>(op, op.getLhs(), op.getRhs());
    });
  }
};

class WrongTarget : public Target {
public:
  explicit WrongTarget(codegen::CPUInfo host) : Target("wrong", std::move(host)) {}
  void buildPrepareKernels(OpPassManager &pm) const override {
    pm.addPass(std::make_unique<MultiplyForSums>());
  }
  void buildScheduleKernels(OpPassManager &) const override {}
  llvm::Expected<Objects> compileKernels(ModuleOp, const CodeOptions &) const override {
    return llvm::createStringError("has no code");
  }
};

void addTo(PluginRegistry &registry) {
  TargetRegistration target;
  target.name = "wrong";
  target.summary = "for tests";
  target.create = [](StringRef, auto host) -> llvm::Expected<std::unique_ptr<Target>> {
    return std::make_unique<WrongTarget>(std::move(host));
  };
  registry.addTarget(target);
}

} // namespace

KILN_PLUGIN("wrong-pass", addTo)
