#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELGUARDSYMBOLS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

/// A symbol that the program defines.
struct Definition {
  DefineOp op;
  Operation *last; // of it and of the assertions behind it
};

class Guard {
public:
  Guard(Block &block, DictionaryAttr ranges) : block(block), ranges(ranges) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto define = dyn_cast<DefineOp>(op)) {
        numbers[sym::Expr::symbol(define.getSymbol())] = definitions.size();
        definitions.push_back({define, define});
      } else if (auto assertion = dyn_cast<AssertOp>(op)) {
        moveUp(assertion);
      }
    }
    for (Definition &definition : definitions)
      assertRange(definition);
  }

private:
  /// To behind the last definition of a symbol that it is about.
  void moveUp(AssertOp assertion) {
    Definition *latest = nullptr;
    assertion.getExpr().getValue().walkLeaves([&](sym::Expr leaf) {
      auto number = numbers.find(leaf);
      if (number != numbers.end())
        latest = std::max(latest, &definitions[number->second]);
    });
    if (!asserted.insert(assertion.getExpr()).second)
      return assertion.erase();
    if (!latest)
      return;
    assertion->moveAfter(latest->last);
    latest->last = assertion;
  }

  void assertRange(Definition &definition) {
    StringRef name = definition.op.getSymbol();
    auto range = ranges ? ranges.getAs<DictionaryAttr>(name) : DictionaryAttr();
    if (!range)
      return;
    OpBuilder builder(definition.op.getContext());
    builder.setInsertionPointAfter(definition.last);
    Location loc = definition.op.getLoc();
    sym::Expr symbol = sym::Expr::symbol(name);
    auto assertBound = [&](IntegerAttr bound, sym::Expr expr, StringRef side) {
      auto attr = sym::ExprAttr::get(builder.getContext(), expr);
      if (asserted.insert(attr).second)
        AssertOp::create(builder, loc, attr,
                         builder.getStringAttr("expected " + name + " to be at " + side + " " +
                                               Twine(bound.getInt()) + " (" + torch::describe(loc) +
                                               ")"));
    };
    if (auto min = range.getAs<IntegerAttr>("min"))
      assertBound(min, symbol - min.getInt(), "least");
    if (auto max = range.getAs<IntegerAttr>("max"))
      assertBound(max, max.getInt() - symbol, "most");
  }

  Block &block;
  DictionaryAttr ranges;
  SmallVector<Definition> definitions;
  DenseMap<sym::Expr, size_t> numbers;
  llvm::DenseSet<Attribute> asserted;
};

struct GuardSymbols : kiln::impl::KernelGuardSymbolsBase<GuardSymbols> {
  void runOnOperation() override {
    auto ranges = getOperation()->getAttrOfType<DictionaryAttr>(torch::symbolsAttrName);
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        Guard(block, ranges).run();
  }
};

} // namespace
