// Finds what a reduction computes of each element of a row that elements compute again: a softmax's
// exponentials.
#include "CPU/Map/MapPlan.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {
/// Compares values of a reduction with those of the body around it, the reduction's dim and the body's
/// dim `column` at the same step.
class Comparison {
public:
  Comparison(unsigned rank, unsigned column) : rank(rank), column(column) {}

  bool areSame(Value inside, Value outside) const {
    if (inside == outside)
      return true;
    Operation *a = inside.getDefiningOp(), *b = outside.getDefiningOp();
    if (!a || !b || a->getName() != b->getName() || a->getNumRegions() || b->getNumRegions() ||
        inside.getType() != outside.getType() || a->getNumOperands() != b->getNumOperands() ||
        cast<OpResult>(inside).getResultNumber() != cast<OpResult>(outside).getResultNumber())
      return false;
    sym::MapAttr map = kernel::getIndexMap(a), other = kernel::getIndexMap(b);
    if (!map != !other || (map && !areSame(map, other)))
      return false;
    if (!map && a->getAttrDictionary() != b->getAttrDictionary())
      return false;
    return llvm::all_of(llvm::zip(a->getOperands(), b->getOperands()), [&](auto pair) {
      auto [x, y] = pair;
      return areSame(x, y);
    });
  }

private:
  /// Indices that are data come behind the dims: they are left out.
  bool areSame(sym::MapAttr inside, sym::MapAttr outside) const {
    sym::IndexMap a = inside.getMap(), b = outside.getMap();
    if (a.numDims != rank + 1 || b.numDims != rank || a.results.size() != b.results.size())
      return false;
    SmallVector<sym::Expr> dims;
    for (unsigned dim = 0; dim < rank; ++dim)
      dims.push_back(sym::Expr::dim(dim));
    dims.push_back(sym::Expr::dim(column));
    return llvm::all_of(llvm::zip(a.results, b.results), [&](auto pair) {
      auto [x, y] = pair;
      return x.substituteDims(dims) == y;
    });
  }

  unsigned rank, column;
};
} // namespace

/// The ops of a reduction that compute `element`.
static SmallVector<Operation *> opsOf(Value element, kernel::ReduceOp reduce) {
  llvm::SetVector<Operation *> ops;
  auto add = [&](Value value) {
    if (Operation *op = value.getDefiningOp(); op && reduce->isProperAncestor(op))
      ops.insert(op);
  };
  add(element);
  for (size_t i = 0; i < ops.size(); ++i)
    llvm::for_each(ops[i]->getOperands(), add);
  return ops.takeVector();
}

/// Takes so long to compute that memory is faster.
static bool isFunction(Operation *op) {
  return isa_and_nonnull<math::MathDialect>(op->getDialect()) &&
         !isa<math::AbsFOp, math::CopySignOp, math::FmaOp>(op);
}

SmallVector<KeptElements> cpu::findKeptElements(kernel::MapOp map, const MapPlan &plan,
                                                const CPUInfo &target) {
  SmallVector<KeptElements> kept;
  unsigned rank = map.getExtents().size();
  // A task has whole rows, whose reductions come before their elements.
  if (!plan.columns || plan.columns->count != 1 || plan.columnBlock || plan.turned || plan.window ||
      !plan.inner.empty())
    return kept;
  sym::Expr extent = plan.columns->extent;
  auto most = kernel::getAssumptions(&map.getBody()).rangeOf(extent).max;
  Comparison comparison(rank, plan.columns->first);
  int64_t bytes = 0;
  for (const PlannedReduction &reduction : plan.reductions) {
    kernel::ReduceOp reduce = reduction.op;
    ArrayRef<sym::Expr> extents = reduce.getExtents().getSizes();
    if (extents.size() != 1 || extents.front() != extent)
      continue;
    for (auto [i, element] :
         llvm::enumerate(reduce.getBody().front().getTerminator()->getOperands())) {
      SmallVector<Operation *> ops = opsOf(element, reduce);
      if (!(element.getType().isF32() || element.getType().isF64()) ||
          !llvm::any_of(ops, isFunction))
        continue;
      for (Operation &op : map.getBody().front()) {
        if (op.getNumResults() != 1 || !comparison.areSame(element, op.getResult(0)))
          continue;
        int64_t ofRow = llvm::alignTo(most.value_or(target.l2Bytes) *
                                          element.getType().getIntOrFloatBitWidth() / 8,
                                      lineBytes);
        if (!most || bytes + ofRow > target.l2Bytes / 4)
          return kept;
        kept.push_back({reduce, static_cast<unsigned>(i), op.getResult(0), ops, bytes, ofRow});
        bytes += ofRow;
        break;
      }
    }
  }
  return kept;
}
