// kernel-hoist-invariants: moves what does not depend on a reduction's dims out of it.
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELHOISTINVARIANTS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

/// The dims a reduce adds: [begin, begin + count).
struct Dims {
  unsigned begin, count;
  bool usedBy(sym::Expr expr) const {
    for (unsigned dim = begin; dim < begin + count; ++dim)
      if (expr.dependsOn(sym::Expr::dim(dim)))
        return true;
    return false;
  }
};

bool dependsOn(Operation *op, Block *body, Dims dims) {
  WalkResult result = op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (operand.getParentBlock() == body)
        return WalkResult::interrupt();
    if (auto map = kernel::getIndexMap(inner))
      if (llvm::any_of(map.getResults(), [&](sym::Expr expr) { return dims.usedBy(expr); }))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return result.wasInterrupted();
}

/// True if something in `op` may fail, as a reduction of nothing must not.
bool mayFail(Operation *op) {
  return op->walk([](ExpectOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Renumbers the maps in `op` for a place outside of the dims.
void dropDims(Operation *op, Dims dims) {
  op->walk([&](Operation *inner) {
    auto attr = kernel::getIndexMap(inner);
    if (!attr)
      return;
    sym::IndexMap map = attr.getMap();
    SmallVector<sym::Expr> renumbered;
    for (unsigned i = 0; i < map.numDims; ++i)
      renumbered.push_back(sym::Expr::dim(i < dims.begin ? i : i - std::min(i, dims.count)));
    for (sym::Expr &expr : map.results)
      expr = expr.substituteDims(renumbered);
    map.numDims -= dims.count;
    cast<kernel::IndexedOpInterface>(inner).setMap(sym::MapAttr::get(op->getContext(), map));
  });
}

struct HoistInvariants : kiln::impl::KernelHoistInvariantsBase<HoistInvariants> {
  void runOnOperation() override {
    // Post-order: what leaves an inner reduction can leave the outer one next.
    getOperation()->walk([&](ReduceOp reduce) {
      Block &body = reduce.getBody().front();
      unsigned count = reduce.getExtents().getSizes().size();
      Dims dims{static_cast<unsigned>(getDimExtents(&reduce.getBody()).size()) - count, count};
      bool mayBeEmpty = !llvm::all_of(reduce.getExtents().getSizes(), [](sym::Expr extent) {
        return extent.constant().value_or(0) > 0;
      });
      for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
        if (dependsOn(&op, &body, dims) || (mayBeEmpty && mayFail(&op)))
          continue;
        dropDims(&op, dims);
        op.moveBefore(reduce);
      }
    });
  }
};

} // namespace
