#include "kiln/Dialect/Kernel/KernelDialect.h"
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

/// Whether element i of a result (in memory) is the only one whose value may depend on element i of
/// operand `argument`. A task may then write its elements of the result over the operand, as every
/// element is read before it is written and by nobody else.
bool isElementwise(kernel::FuncOp func, BlockArgument argument) {
  auto map = dyn_cast<kernel::MapOp>(func.getRoot());
  if (!map)
    return false;
  SmallVector<sym::Expr> domain = map.getDomain(), dims;
  for (unsigned i = 0; i < domain.size(); ++i)
    dims.push_back(sym::Expr::dim(i));
  sym::Expr written = sym::linearize(dims, domain);
  SmallVector<sym::Expr> shape = sym::getShape(argument);
  return llvm::all_of(argument.getUsers(), [&](Operation *user) {
    auto read = dyn_cast<kernel::ReadOp>(user);
    if (!read || !read.getValues().empty())
      return false;
    sym::Expr address = sym::linearize(read.getMap().getResults(), shape);
    return kernel::getAssumptions(read->getParentRegion()).simplify(address) == written;
  });
}

struct ReuseInPlace : kiln::impl::WrapperReuseInPlaceBase<ReuseInPlace> {
  void runOnOperation() override {
    Block &block = getOperation().getBody().front();
    auto module = getOperation()->getParentOfType<ModuleOp>();
    SymbolTable symbols(module);
    // The last op that uses each allocation, through whatever view.
    DenseMap<Value, Operation *> lastUse;
    for (Operation &op : block)
      for (Value operand : op.getOperands())
        lastUse[getStorage(operand)] = &op;

    for (LaunchOp launch : llvm::make_early_inc_range(block.getOps<LaunchOp>())) {
      auto func = symbols.lookup<kernel::FuncOp>(launch.getKernel());
      for (Value out : llvm::to_vector(launch.getOuts())) {
        auto alloc = out.getDefiningOp<AllocOp>();
        if (!alloc || !isFirstUse(launch, alloc))
          continue;
        for (auto [i, in] : llvm::enumerate(launch.getIns())) {
          Value storage = getStorage(in);
          if (lastUse.lookup(storage) != launch || !canGive(launch, func, i, alloc))
            continue;
          lastUse[storage] = lastUse.lookup(alloc); // the result's users keep the memory taken
          replaceByView(alloc, in);
          break;
        }
      }
    }
  }

  static bool isFirstUse(LaunchOp launch, AllocOp alloc) {
    return llvm::all_of(alloc->getUsers(), [&](Operation *user) {
      return user == launch || launch->isBeforeInBlock(user);
    });
  }

  static bool canGive(LaunchOp launch, kernel::FuncOp func, unsigned i, AllocOp alloc) {
    auto in = cast<TypedValue<BufferType>>(launch.getIns()[i]);
    BufferType outType = alloc.getType();
    // Of what is part of a larger buffer other parts may be wanted still; an operand given twice is
    // read twice; and a result that has got the memory has it alone.
    auto storage = getStorage(in).getDefiningOp<AllocOp>();
    return storage && storage.getType().getBytes() == in.getType().getBytes() &&
           in.getType().getBytes() == outType.getBytes() &&
           getElementBytes(in.getType().getElementType()) ==
               getElementBytes(outType.getElementType()) &&
           llvm::count_if(launch.getOperands(),
                          [&](Value other) { return getStorage(other) == storage; }) == 1 &&
           isElementwise(func, func.getArgument(i));
  }

  void replaceByView(AllocOp alloc, Value memory) {
    OpBuilder builder(alloc);
    Value view = ViewOp::create(builder, alloc.getLoc(), alloc.getType(), memory,
                                sym::ExprAttr::get(&getContext(), sym::Expr()));
    alloc.replaceAllUsesWith(view);
    alloc.erase();
  }
};

} // namespace
