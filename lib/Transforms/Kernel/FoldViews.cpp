// kernel-fold-views: reads through views by composing index maps.
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/PatternMatch.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELFOLDVIEWS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

struct FoldViews : kiln::impl::KernelFoldViewsBase<FoldViews> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<ReadOp> reads;
    getOperation()->walk([&](ReadOp read) { reads.push_back(read); });
    // In program order, so that a view's own read has been composed when its users come.
    for (ReadOp read : reads) {
      auto producer = read.getTensor().getDefiningOp<MapOp>();
      if (!producer || !producer.getView())
        continue;
      // Chains of reshapes are short only when they are simplified link by link.
      simplifyMap(read, getAssumptions(read->getParentRegion()));
      if (canInline(read, producer))
        inlineRead(rewriter, read, producer);
    }
    SmallVector<MapOp> maps;
    getOperation()->walk([&](MapOp map) { maps.push_back(map); });
    for (MapOp map : llvm::reverse(maps))
      if (map->use_empty())
        map->erase();
  }
};

} // namespace
