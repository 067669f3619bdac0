// kernel-share-reductions: a reduction that elements of a map share is computed once, by a map of its own.
//
//   for c: for h: for w: exp(x[c, h, w]) / sum of exp(x[d, h, w]) over d
//
// computes each sum as often as there are channels. A loop keeps what depends on the dims around it alone, as the sums
// of a softmax over the last dim do, but here the dims inside are those that the sum depends on.
#include "kiln/Transforms/Kernel/MapDims.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELSHAREREDUCTIONS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// Steps of reductions that are worth another kernel, and elements that share one.
static constexpr int64_t leastSteps = 1 << 16, leastShares = 4;

namespace {

using UsedDims = DenseMap<Operation *, llvm::SmallBitVector>;

struct ShareReductions : kiln::impl::KernelShareReductionsBase<ShareReductions> {
  void runOnOperation() override {
    SmallVector<MapOp> maps(getOperation().getOps<MapOp>());
    for (MapOp map : maps) {
      // A map of its own would check what the map may never come to.
      if (map->walk([](ExpectOp) { return WalkResult::interrupt(); }).wasInterrupted())
        continue;
      UsedDims used = findUsedDims(map);
      for (ReduceOp reduce : llvm::to_vector(map.getBody().front().getOps<ReduceOp>()))
        if (const llvm::SmallBitVector &dims = used.find(reduce)->second;
            isShared(map, reduce, dims))
          share(map, findLast(reduce, used), dims);
    }
  }

  /// A loop around those that `reduce` depends on would compute it again.
  static bool isShared(MapOp map, ReduceOp reduce, const llvm::SmallBitVector &used) {
    SmallVector<sym::Expr> extents = map.getExtents(), around;
    for (int last = used.find_last(), dim = 0; dim < last; ++dim)
      if (!used.test(dim))
        around.push_back(extents[dim]);
    int64_t steps = estimateElements(reduce.getExtents().getSizes());
    int64_t elements = std::min<int64_t>(estimateElements(extents), INT32_MAX);
    return llvm::all_of(reduce.getResultTypes(), [](Type type) { return type.isIntOrFloat(); }) &&
           estimateElements(around) >= leastShares &&
           elements >= leastSteps / std::max<int64_t>(steps, 1);
  }

  /// The last op that is made of the reduction alone, an element of no more dims: a mean, a divisor's inverse.
  static Operation *findLast(ReduceOp reduce, const UsedDims &used) {
    Operation *last = reduce;
    while (last->getNumResults() == 1 && last->hasOneUse()) {
      Operation *user = *last->user_begin();
      if (user->getBlock() != reduce->getBlock() || user->getNumResults() != 1 ||
          user->getNumRegions() != 0 || !user->getResult(0).getType().isIntOrFloat() ||
          used.find(user)->second != used.find(reduce)->second)
        break;
      last = user;
    }
    return last;
  }

  /// Replaces `op` by what a map over `used` has computed.
  static void share(MapOp map, Operation *op, const llvm::SmallBitVector &used) {
    OpBuilder builder(map);
    SmallVector<sym::Expr> extents = map.getExtents(), shape;
    unsigned rank = extents.size();
    DimSubstitution substitution;
    substitution.sourceDims = rank;
    substitution.dims.assign(rank, sym::Expr(0));
    sym::IndexMap index{rank, {}};
    for (unsigned dim : used.set_bits()) {
      substitution.dims[dim] = sym::Expr::dim(shape.size());
      index.results.push_back(sym::Expr::dim(dim));
      shape.push_back(extents[dim]);
    }
    substitution.targetDims = shape.size();
    SmallVector<Type> types;
    for (Type type : op->getResultTypes())
      types.push_back(sym::getTensorType(shape, type));
    auto shared = MapOp::create(builder, op->getLoc(), TypeRange(types));
    builder.setInsertionPointToStart(&shared.getBody().emplaceBlock());
    IRMapping mapping;
    cloneBody(builder, map.getBody().front(), substitution, mapping);
    SmallVector<Value> results;
    for (Value result : op->getResults())
      results.push_back(mapping.lookup(result));
    YieldOp::create(builder, op->getLoc(), results);

    builder.setInsertionPoint(op);
    for (auto [result, tensor] : llvm::zip(op->getResults(), shared.getResults()))
      result.replaceAllUsesWith(ReadOp::create(builder, op->getLoc(), tensor, index));
    op->erase();
  }
};

} // namespace
