// kernel-propagate-layouts: orders the dims of maps as most of the data they read is laid out.
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/DebugLog.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InterleavedRange.h"

#define DEBUG_TYPE "kernel-propagate-layouts"

namespace kiln {
#define GEN_PASS_DEF_KERNELPROPAGATELAYOUTS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

using Order = SmallVector<unsigned, 4>;

/// The one domain dim that `expr` walks along, if it is linear in just one.
std::optional<unsigned> walkedDim(sym::Expr expr, unsigned rank) {
  std::optional<unsigned> found;
  for (unsigned dim = 0; dim < rank; ++dim) {
    if (!expr.dependsOn(sym::Expr::dim(dim)))
      continue;
    if (found || !sym::splitLinear(expr, sym::Expr::dim(dim)))
      return std::nullopt;
    found = dim;
  }
  return found;
}

/// The domain dims that `value`, computed in a map's body, depends on.
llvm::SmallBitVector getDimsUsed(Value value, unsigned rank) {
  llvm::SmallBitVector used(rank);
  SmallVector<Value> pending = {value};
  llvm::SmallDenseSet<Operation *> visited;
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val().getDefiningOp();
    if (!op || isStructured(op) || !visited.insert(op).second)
      continue;
    op->walk([&](Operation *inner) {
      llvm::append_range(pending, inner->getOperands());
      if (sym::MapAttr map = kernel::getIndexMap(inner))
        for (sym::Expr expr : map.getResults())
          for (unsigned dim = 0; dim < rank; ++dim)
            if (expr.dependsOn(sym::Expr::dim(dim)))
              used.set(dim);
    });
  }
  return used;
}

/// The index of `read` in which a value that one domain dim decides, such as a row of an
/// interpolation's input, is that dim. Nullopt if several dims decide a value.
std::optional<SmallVector<sym::Expr>> getWalk(ReadOp read, unsigned rank) {
  sym::IndexMap map = read.getMap().getMap();
  SmallVector<sym::Expr> dims;
  for (unsigned dim = 0; dim < map.numDims - read.getValues().size(); ++dim)
    dims.push_back(sym::Expr::dim(dim));
  for (Value value : read.getValues()) {
    llvm::SmallBitVector used = getDimsUsed(value, rank);
    if (used.count() > 1)
      return std::nullopt;
    dims.push_back(used.none() ? sym::Expr(0) : sym::Expr::dim(used.find_first()));
  }
  SmallVector<sym::Expr> index;
  for (sym::Expr expr : map.results)
    index.push_back(expr.substituteDims(dims));
  return index;
}

/// Adds the sum of two dims as two, the one of the larger steps first: views that join dims leave
/// sums, which only what computes an index keeps.
void splitSums(SmallVector<sym::Expr> &index, unsigned rank) {
  SmallVector<sym::Expr> split;
  for (sym::Expr expr : index) {
    SmallVector<sym::Expr, 2> large, small;
    for (unsigned dim = 0; dim < rank; ++dim)
      if (std::optional<sym::Linear> linear = sym::splitLinear(expr, sym::Expr::dim(dim));
          linear && !linear->coefficient.isConstant(0))
        (linear->coefficient.isConstant(1) ? small : large).push_back(sym::Expr::dim(dim));
    if (large.size() == 1 && small.size() == 1)
      split.append({large.front(), small.front()});
    else
      split.push_back(expr);
  }
  index = std::move(split);
}

/// The order of domain dims in which `read` walks memory, outermost first; size-one dims come
/// first. Nullopt if the read does not walk all of the domain.
std::optional<Order> getOrder(ReadOp read, ArrayRef<sym::Expr> domain) {
  std::optional<SmallVector<sym::Expr>> index = getWalk(read, domain.size());
  if (!index)
    return std::nullopt;
  if (!read.getValues().empty())
    splitSums(*index, domain.size());
  Order order;
  SmallVector<bool> seen(domain.size(), false);
  for (auto [i, size] : llvm::enumerate(domain))
    if (size.isConstant(1)) {
      order.push_back(i);
      seen[i] = true;
    }
  for (sym::Expr expr : *index) {
    if (expr.numDimsUsed() == 0)
      continue;
    std::optional<unsigned> dim = walkedDim(expr, domain.size());
    if (!dim) {
      for (unsigned d = 0; d < domain.size(); ++d)
        if (expr.dependsOn(sym::Expr::dim(d)) && !domain[d].isConstant(1))
          return std::nullopt;
      continue; // a reduction's dim
    }
    if (domain[*dim].isConstant(1))
      continue;
    if (seen[*dim])
      return std::nullopt;
    seen[*dim] = true;
    order.push_back(*dim);
  }
  if (order.size() != domain.size())
    return std::nullopt;
  return order;
}

struct PropagateLayouts : kiln::impl::KernelPropagateLayoutsBase<PropagateLayouts> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<MapOp> maps;
    getOperation()->walk([&](MapOp map) { maps.push_back(map); });
    for (MapOp map : maps)
      if (!map.getView())
        if (std::optional<Order> order = elect(map))
          permute(map, *order, rewriter);
  }

  /// Attention alone reads the map, as what it adds to the scores. It goes along queries and keys
  /// of one head at a time, often once in every layer, whatever the order of what the map reads.
  static bool isBias(MapOp map) {
    return !map->use_empty() && llvm::all_of(map->getUsers(), [](Operation *user) {
      auto attention = dyn_cast<AttentionOp>(user->getParentOp());
      return attention && user->getParentRegion() == &attention.getBias();
    });
  }

  /// The order that most of the bytes read are laid out in, if it is another than the written one.
  std::optional<Order> elect(MapOp map) {
    SmallVector<sym::Expr> domain = map.getExtents();
    if (domain.size() < 2 || isBias(map))
      return std::nullopt;
    Order written;
    for (auto [i, size] : llvm::enumerate(domain))
      if (size.isConstant(1))
        written.push_back(i);
    for (auto [i, size] : llvm::enumerate(domain))
      if (!size.isConstant(1))
        written.push_back(i);

    llvm::MapVector<Value, Order> seen;
    SmallVector<std::pair<Order, double>> votes;
    map->walk([&](ReadOp read) {
      std::optional<Order> order = getOrder(read, domain);
      if (!order || !seen.insert({read.getTensor(), *order}).second)
        return;
      double weight = 1;
      for (sym::Expr size : sym::getShape(read.getTensor()))
        weight *= static_cast<double>(size.constant().value_or(64));
      auto *vote = llvm::find_if(votes, [&](auto &entry) { return entry.first == *order; });
      if (vote == votes.end())
        votes.push_back({*order, weight});
      else
        vote->second += weight;
    });
    if (votes.empty())
      return std::nullopt;
    // The first of equals wins, and the written order before any other.
    auto *best = votes.begin();
    double writtenWeight = 0;
    for (auto &vote : votes) {
      LDBG() << torch::describe(map.getLoc()) << ": " << llvm::format("%.0f", vote.second)
             << " elements in the order " << llvm::interleaved_array(vote.first);
      if (vote.second > best->second)
        best = &vote;
      if (vote.first == written)
        writtenWeight = vote.second;
    }
    if (best->first == written || writtenWeight >= best->second)
      return std::nullopt;
    return best->first;
  }

  void permute(MapOp map, const Order &order, IRRewriter &rewriter) {
    SmallVector<sym::Expr> domain = map.getExtents(), shape;
    // New dim j is old dim order[j].
    DimSubstitution substitution;
    substitution.sourceDims = substitution.targetDims = domain.size();
    substitution.dims.resize(domain.size());
    SmallVector<sym::Expr> viewIndex;
    for (auto [j, dim] : llvm::enumerate(order)) {
      shape.push_back(domain[dim]);
      substitution.dims[dim] = sym::Expr::dim(j);
      viewIndex.push_back(sym::Expr::dim(dim));
    }
    SmallVector<Type> types;
    for (Value result : map.getResults())
      types.push_back(
          sym::getTensorType(shape, cast<RankedTensorType>(result.getType()).getElementType()));

    rewriter.setInsertionPoint(map);
    auto permuted = MapOp::create(rewriter, map.getLoc(), TypeRange(types));
    rewriter.setInsertionPointToStart(&permuted.getBody().emplaceBlock());
    IRMapping mapping;
    SmallVector<Value> values = cloneBody(rewriter, map.getBody().front(), substitution, mapping);
    YieldOp::create(rewriter, map.getLoc(), values);

    rewriter.setInsertionPoint(map);
    SmallVector<Value> views;
    for (Value result : permuted.getResults())
      views.push_back(createView(rewriter, map.getLoc(), result, domain, viewIndex).getResult(0));
    rewriter.replaceOp(map, views);
    // Later maps vote on what is really in memory.
    for (Value view : views)
      foldReads(rewriter, view.getDefiningOp<MapOp>());
  }
};

} // namespace
