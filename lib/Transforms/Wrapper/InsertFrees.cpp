// wrapper-insert-frees: frees every allocation after its last use.
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Builders.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERINSERTFREES
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

struct InsertFrees : kiln::impl::WrapperInsertFreesBase<InsertFrees> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<HostFunctionOpInterface>())
      run(function.getFunctionBody().front());
  }

  void run(Block &block) {
    // Walking backwards, the first use met of a piece of memory is its last.
    llvm::SmallPtrSet<Value, 16> ended;
    for (auto give : block.getOps<GiveOp>()) // the caller reads it
      ended.insert(getStorage(give.getBuffer()));
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
      if (isa<FreeOp, ReuseOp>(op)) {
        ended.insert(op.getOperand(0));
        continue;
      }
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfter(&op);
      for (Value operand : op.getOperands()) {
        Value storage = getStorage(operand);
        if (isa_and_nonnull<AllocOp, ReuseOp>(storage.getDefiningOp()) &&
            ended.insert(storage).second)
          FreeOp::create(builder, op.getLoc(), storage);
      }
      // A buffer that nobody uses ends where it began.
      if (isa<AllocOp>(op) && ended.insert(op.getResult(0)).second)
        op.erase();
    }
  }
};

} // namespace
