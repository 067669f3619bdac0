// kernel-merge-equal: computes only once what equal ops compute. MLIR's own pass compares structured
// ops with all others of their types.
#include "EqualOps.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELMERGEEQUAL
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

struct MergeEqual : kiln::impl::KernelMergeEqualBase<MergeEqual> {
  void runOnOperation() override {
    EqualOps known;
    for (Region &region : getOperation()->getRegions())
      run(region, known);
  }

  static void run(Region &region, EqualOps &known) {
    for (Block &block : region) {
      size_t outside = known.size();
      for (Operation &op : llvm::make_early_inc_range(block))
        run(op, known);
      known.truncate(outside);
    }
  }

  static void run(Operation &op, EqualOps &known) {
    if (isOpTriviallyDead(&op))
      return op.erase();
    if (op.hasTrait<OpTrait::IsIsolatedFromAbove>()) {
      EqualOps inside;
      for (Region &region : op.getRegions())
        run(region, inside);
      return;
    }
    for (Region &region : op.getRegions())
      run(region, known);
    if (op.hasTrait<OpTrait::IsTerminator>() || !isMemoryEffectFree(&op))
      return;
    Operation *equal = known.findOrAdd(&op);
    if (!equal)
      return;
    if (isa<UnknownLoc>(equal->getLoc()))
      equal->setLoc(op.getLoc());
    op.replaceAllUsesWith(equal);
    op.erase();
  }
};

} // namespace
