#include "kiln/Target/CPU/LoopNest.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

SmallVector<sym::Expr> DimGroup::delinearize(sym::Expr variable) const {
  SmallVector<sym::Expr> values = sym::delinearize(variable, extents);
  for (auto [value, extent] : llvm::zip(values, extents))
    if (extent.isConstant(1))
      value = 0;
  return values;
}

void DimGroup::bind(BodyEmitter &body, sym::Expr variable) const {
  for (auto [i, value] : llvm::enumerate(delinearize(variable)))
    body.setDim(first + i, value);
}

SmallVector<Access> cpu::collectAccesses(Region &region) {
  SmallVector<Access> accesses;
  region.walk([&](Operation *op) {
    auto map = op->getAttrOfType<sym::MapAttr>("map");
    if (!map)
      return;
    auto read = dyn_cast<kernel::ReadOp>(op);
    if (read && read.getValues().empty()) {
      accesses.push_back(
          {op, true, sym::linearize(map.getResults(), sym::getShape(read.getTensor()))});
      return;
    }
    for (sym::Expr result : map.getResults())
      accesses.push_back({op, false, result});
  });
  return accesses;
}

static bool canMerge(sym::Expr outer, sym::Expr inner, sym::Expr innerExtent,
                     ArrayRef<Access> accesses) {
  return llvm::all_of(accesses, [&](const Access &access) {
    std::optional<sym::Linear> a = sym::splitLinear(access.expr, outer);
    std::optional<sym::Linear> b = sym::splitLinear(access.expr, inner);
    return a && b && !a->coefficient.hasDims() && !b->coefficient.hasDims() &&
           a->coefficient == b->coefficient * innerExtent;
  });
}

SmallVector<DimGroup> cpu::collapseDims(unsigned firstDim, ArrayRef<sym::Expr> extents,
                                        ArrayRef<Access> accesses) {
  SmallVector<DimGroup> groups;
  for (auto [i, extent] : llvm::enumerate(extents)) {
    unsigned dim = firstDim + i;
    if (!groups.empty()) {
      DimGroup &last = groups.back();
      bool trivial = extent.isConstant(1) || last.extent.isConstant(1);
      if (trivial || canMerge(last.lastDim(), sym::Expr::dim(dim), extent, accesses)) {
        ++last.count;
        last.extent = last.extent * extent;
        last.extents.push_back(extent);
        continue;
      }
    }
    groups.push_back({dim, 1, extent, {extent}});
  }
  return groups;
}

Walk cpu::classify(sym::Expr offset, sym::Expr dim) {
  if (!offset.dependsOn(dim))
    return Walk::Uniform;
  std::optional<sym::Linear> linear = sym::splitLinear(offset, dim);
  if (!linear)
    return Walk::Irregular;
  if (linear->coefficient.isConstant(1))
    return Walk::Consecutive;
  return linear->coefficient.hasDims() ? Walk::Irregular : Walk::Strided;
}

int64_t cpu::estimate(sym::Expr size) {
  constexpr int64_t guess = 64;
  return size.evaluate([](sym::Expr) { return guess; }).value_or(guess * guess);
}
