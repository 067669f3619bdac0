// kernel-outline: gives each structured op a kernel function, which equal ones share.
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/StringMap.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELOUTLINE
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

struct Outline : kiln::impl::KernelOutlineBase<Outline> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<Operation *> roots;
    module->walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<FuncOp>(op))
        return WalkResult::skip();
      if (!isStructured(op))
        return WalkResult::advance();
      roots.push_back(op);
      return WalkResult::skip();
    });

    IRRewriter rewriter(&getContext());
    SymbolTable symbols(module);
    llvm::StringMap<FuncOp> known;
    for (Operation *root : roots) {
      SmallVector<Value> operands = getReadTensors(root);
      rewriter.setInsertionPointToEnd(module.getBody());
      FuncOp func = createKernel(rewriter, root, operands, known.size());
      auto [entry, isNew] = known.try_emplace(getFingerprint(func), func);
      if (isNew)
        symbols.insert(func);
      else
        func.erase();

      rewriter.setInsertionPoint(root);
      auto call = CallOp::create(rewriter, root->getLoc(), root->getResultTypes(),
                                 entry->second.getSymName(), operands);
      rewriter.replaceOp(root, call);
    }
  }
};

} // namespace
