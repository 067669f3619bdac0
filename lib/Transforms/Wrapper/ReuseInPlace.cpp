// wrapper-reuse-in-place: lets element-wise kernels write their result over an operand.
#include "Elementwise.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Builders.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERREUSEINPLACE
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

struct ReuseInPlace : kiln::impl::WrapperReuseInPlaceBase<ReuseInPlace> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<HostFunctionOpInterface>())
      run(function.getFunctionBody().front(), symbols);
  }

  void run(Block &block, SymbolTable &symbols) {
    lastUse.clear();
    for (Operation &op : block)
      for (Value operand : op.getOperands())
        lastUse[getStorage(operand)] = &op;

    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto launch = dyn_cast<LaunchOp>(op)) {
        auto func = symbols.lookup<kernel::FuncOp>(launch.getKernel());
        for (Value out : llvm::to_vector(launch.getOuts()))
          for (auto [i, in] : llvm::enumerate(launch.getIns()))
            if (canGive(launch, in, out) && isElementwise(func, func.getArgument(i))) {
              give(in, out);
              break;
            }
      } else if (auto call = dyn_cast<ExternCallOp>(op)) {
        OperandRange updated = call.getOuts().take_back(call.getUpdates().size());
        for (auto [operand, out] : llvm::zip_equal(call.getUpdates(), updated))
          if (Value in = call.getIns()[operand]; canGive(call, in, out))
            give(in, out);
      }
    }
  }

  static bool isFirstUse(Operation *call, AllocOp alloc) {
    return llvm::all_of(alloc->getUsers(), [&](Operation *user) {
      return user == call || call->isBeforeInBlock(user);
    });
  }

  /// The memory of operand `in` ends at `call` and is the right one for result `out`.
  bool canGive(Operation *call, Value in, Value out) {
    auto alloc = out.getDefiningOp<AllocOp>();
    auto storage = getStorage(in).getDefiningOp<AllocOp>();
    if (!alloc || !storage || lastUse.lookup(storage) != call || !isFirstUse(call, alloc))
      return false;
    // A part of a larger buffer stays, since other parts may be wanted still; an operand given
    // twice is read twice; and a result that has got the memory has it alone.
    auto inType = cast<BufferType>(in.getType());
    BufferType outType = alloc.getType();
    return storage.getType().getBytes() == inType.getBytes() &&
           inType.getBytes() == outType.getBytes() &&
           getElementBytes(inType.getElementType()) == getElementBytes(outType.getElementType()) &&
           llvm::count_if(call->getOperands(),
                          [&](Value other) { return getStorage(other) == storage; }) == 1;
  }

  /// Makes the result a view of the operand.
  void give(Value in, Value out) {
    auto alloc = out.getDefiningOp<AllocOp>();
    lastUse[getStorage(in)] = lastUse.lookup(alloc); // the result's users keep the memory taken
    OpBuilder builder(alloc);
    Value view = ViewOp::create(builder, alloc.getLoc(), alloc.getType(), in,
                                sym::ExprAttr::get(&getContext(), sym::Expr()));
    alloc.replaceAllUsesWith(view);
    alloc.erase();
  }

  /// The last op that uses each allocation, through whatever view.
  DenseMap<Value, Operation *> lastUse;
};

} // namespace
