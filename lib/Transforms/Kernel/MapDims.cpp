// Dims of a map's body, and how large what they count may be.
#include "kiln/Transforms/Kernel/MapDims.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

DenseMap<Operation *, llvm::SmallBitVector> kernel::findUsedDims(MapOp map) {
  SmallVector<sym::Expr> extents = map.getExtents();
  DenseMap<Operation *, llvm::SmallBitVector> dims;
  for (Operation &op : map.getBody().front()) {
    llvm::SmallBitVector used(extents.size());
    op.walk([&](Operation *inner) {
      if (auto index = kernel::getIndexMap(inner))
        for (sym::Expr expr : index.getResults())
          expr.walkLeaves([&](sym::Expr leaf) {
            if (leaf.kind() == sym::Kind::Dim && leaf.dimIndex() < extents.size() &&
                !extents[leaf.dimIndex()].isConstant(1))
              used.set(leaf.dimIndex());
          });
      for (Value operand : inner->getOperands())
        if (auto found = dims.find(operand.getDefiningOp()); found != dims.end())
          used |= found->second;
    });
    dims[&op] = used;
  }
  return dims;
}

int64_t kernel::estimateElements(ArrayRef<sym::Expr> sizes) {
  constexpr int64_t unknown = 64;
  return sym::product(sizes).evaluate([](sym::Expr) { return unknown; }).value_or(INT64_MAX);
}
