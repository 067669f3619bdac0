// Example values for symbols: PyTorch computes fake tensors with some, and all that the program
// asserts should hold of them.
#include "FxFunction.h"
#include "kiln/Host/ModelInfo.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::fx;
using namespace kiln::wrapper;

/// The expressions that must be at least zero, as far as they follow from `symbols`.
static llvm::SetVector<sym::Expr> findConditions(ModuleOp module,
                                                 const llvm::SetVector<sym::Expr> &symbols) {
  llvm::SetVector<sym::Expr> conditions;
  auto add = [&](sym::Expr expr) {
    bool follows = !expr.isConstant();
    expr.walkLeaves([&](sym::Expr leaf) { follows &= symbols.contains(leaf); });
    if (follows)
      conditions.insert(expr);
  };
  auto addSizes = [&](TypeRange types) {
    for (Type type : types)
      if (auto buffer = dyn_cast<BufferType>(type))
        llvm::for_each(buffer.getSizes(), add);
  };
  module.walk([&](Operation *op) {
    addSizes(op->getOperandTypes());
    addSizes(op->getResultTypes());
    if (auto assertion = dyn_cast<AssertOp>(op))
      add(assertion.getExpr().getValue());
  });
  return conditions;
}

llvm::StringMap<int64_t> fx::findExamples(ProgramOp program, ArrayRef<NamedAttribute> symbols) {
  llvm::SetVector<sym::Expr> names;
  for (NamedAttribute symbol : symbols)
    names.insert(sym::Expr::symbol(symbol.getName()));
  llvm::SetVector<sym::Expr> conditions =
      findConditions(program->getParentOfType<ModuleOp>(), names);
  llvm::StringMap<int64_t> best;
  int64_t bestCount = -1;
  uint64_t state = 1;
  // Distinct multiples of 8 first: most programs are fine with them, and sizes that differ stay
  // different. Then numbers of all kinds.
  constexpr unsigned attempts = 2000;
  for (unsigned attempt = 0; attempt < attempts; ++attempt) {
    llvm::StringMap<int64_t> examples;
    for (auto [i, symbol] : llvm::enumerate(symbols)) {
      state = 6364136223846793005u * state + 1442695040888963407u;
      auto random = static_cast<int64_t>((state >> 33) % 96);
      int64_t value = attempt == 0  ? 24 + 16 * static_cast<int64_t>(i)
                      : attempt % 2 ? 2 + random
                                    : 8 * (1 + random);
      int64_t low = host::getSymbolBound(symbol, "min").value_or(0),
              high = host::getSymbolBound(symbol, "max").value_or(INT64_MAX);
      examples[symbol.getName()] = std::min(std::max(value, low), high);
    }
    auto holds = [&](sym::Expr expr) {
      return expr.evaluate([&](sym::Expr leaf) { return examples.lookup(leaf.symbolName()); })
                 .value_or(-1) >= 0;
    };
    int64_t count = llvm::count_if(conditions, holds);
    if (count > bestCount) {
      best = std::move(examples);
      bestCount = count;
    }
    if (bestCount == static_cast<int64_t>(conditions.size()))
      break;
  }
  return best;
}
