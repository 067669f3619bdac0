// Decides whether calls copy with sizes from two on, and takes smaller sizes from a program.
#include "SmallSizes.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Torch/CallArgs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;
using sym::Expr;

SmallSizes::SmallSizes(ModuleOp module) : module(module) {
  kernel::addSymbolRanges(module, known);
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    return;
  llvm::SetVector<Expr> found;
  for (Type type : main.getArgumentTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      for (Expr size : sym::getShape(tensor))
        size.walkLeaves([&](Expr leaf) { found.insert(leaf); });
  for (Expr symbol : found) {
    sym::Range range = known.rangeOf(symbol);
    if (!known.isLess(1, symbol) && (!range.max || *range.max >= 2))
      symbols.push_back({symbol, range});
  }
}

ViewDecision SmallSizes::decide(CallOp call, llvm::SmallBitVector &fromTwo) const {
  fromTwo = llvm::SmallBitVector(symbols.size());
  ViewDecision decision = decideSharing(call, known);
  if (decision.sharing != Sharing::Maybe)
    return decision;
  // Tensors of no elements share nothing, whatever the decision.
  auto sizes = sym::getShape(CallArgs(call).tensor(0));
  auto leastOf = [&](Expr symbol) { return llvm::is_contained(sizes, symbol) ? 1 : 0; };
  sym::Assumptions ranges = known;
  for (auto [symbol, range] : symbols)
    ranges.setRange(symbol, {2, range.max});
  ViewDecision whenLarge = decideSharing(call, ranges);
  if (whenLarge.sharing == Sharing::Maybe)
    return decision;
  for (auto [i, small] : llvm::enumerate(symbols)) {
    auto [symbol, range] = small;
    ranges.setRange(symbol, {std::max<int64_t>(range.min.value_or(0), leastOf(symbol)), range.max});
    if (decideSharing(call, ranges).sharing == whenLarge.sharing)
      continue;
    ranges.setRange(symbol, {2, range.max});
    fromTwo.set(i);
  }
  return whenLarge;
}

void SmallSizes::exclude(const llvm::SmallBitVector &chosen) {
  if (chosen.none())
    return;
  Builder builder(module.getContext());
  NamedAttrList ranges(module->getAttrOfType<DictionaryAttr>(sym::symbolsAttrName));
  for (unsigned i : chosen.set_bits()) {
    StringRef name = symbols[i].first.symbolName();
    NamedAttrList range(dyn_cast_or_null<DictionaryAttr>(ranges.get(name)));
    range.set("min", builder.getI64IntegerAttr(2));
    ranges.set(name, range.getDictionary(builder.getContext()));
  }
  module->setAttr(sym::symbolsAttrName, ranges.getDictionary(builder.getContext()));
}
