// wrapper-reuse-buffers: gives freed memory of symbolic size to the next allocation of that size.
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Builders.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERREUSEBUFFERS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

struct ReuseBuffers : kiln::impl::WrapperReuseBuffersBase<ReuseBuffers> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<HostFunctionOpInterface>())
      run(function.getFunctionBody().front());
  }

  static void run(Block &block) {
    // By size in bytes: memory that has been freed, the latest last (it is the likeliest to be in
    // the cache still).
    DenseMap<sym::Expr, SmallVector<FreeOp>> freed;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto free = dyn_cast<FreeOp>(op)) {
        sym::Expr bytes = cast<BufferType>(free.getBuffer().getType()).getBytes();
        if (!bytes.isConstant())
          freed[bytes].push_back(free);
        continue;
      }
      auto alloc = dyn_cast<AllocOp>(op);
      if (!alloc)
        continue;
      auto candidates = freed.find(alloc.getType().getBytes());
      if (candidates == freed.end() || candidates->second.empty())
        continue;
      FreeOp free = candidates->second.pop_back_val();
      OpBuilder builder(alloc);
      Value reuse = ReuseOp::create(builder, alloc.getLoc(), alloc.getType(), free.getBuffer());
      alloc.replaceAllUsesWith(reuse);
      alloc.erase();
      free.erase();
    }
  }
};

} // namespace
