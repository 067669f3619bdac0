// kernel-guard-symbols: checks what is known of a symbol where it gets its value.
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELGUARDSYMBOLS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

/// An op that gives symbols their values: a define, or a call whose graphs have results of their own
/// sizes.
struct Definition {
  Operation *op;
  Operation *last; // of it and of the assertions behind it
};

void addSymbols(sym::Expr expr, llvm::DenseSet<sym::Expr> &symbols) {
  expr.walkLeaves([&](sym::Expr leaf) { symbols.insert(leaf); });
}

/// The symbols that the inputs of the program give; none for a graph, which is not always run.
llvm::DenseSet<sym::Expr> symbolsAtEntry(func::FuncOp function) {
  llvm::DenseSet<sym::Expr> symbols;
  if (function.isPrivate())
    return symbols;
  AttrTypeWalker walker;
  walker.addWalk([&](sym::ExprAttr expr) { addSymbols(expr.getValue(), symbols); });
  walker.addWalk([&](sym::ShapeAttr shape) {
    for (sym::Expr size : shape.getSizes())
      addSymbols(size, symbols);
  });
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    walker.walk(function.getArgumentTypes()[i]);
    if (DictionaryAttr attrs = function.getArgAttrDict(i))
      walker.walk(attrs);
  }
  return symbols;
}

class Guard {
public:
  Guard(Block &block, DictionaryAttr ranges, const llvm::DenseSet<sym::Expr> &atEntry)
      : block(block), ranges(ranges), atEntry(atEntry) {}

  void run() {
    start = &block.front();
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto define = dyn_cast<DefineOp>(op)) {
        numbers[sym::Expr::symbol(define.getSymbol())] = definitions.size();
        definitions.push_back({define, define});
      } else if (isa<GraphCallOpInterface>(op)) {
        addResults(op);
      } else if (auto assertion = dyn_cast<AssertOp>(op)) {
        moveUp(assertion);
      }
    }
    for (Definition &definition : definitions)
      assertRange(definition);
  }

private:
  /// The names of the sizes of a call's results before anything else is.
  void addResults(Operation &call) {
    llvm::DenseSet<sym::Expr> symbols;
    for (Type type : call.getResultTypes())
      for (sym::Expr size : sym::getShape(cast<RankedTensorType>(type)))
        addSymbols(size, symbols);
    for (sym::Expr symbol : symbols)
      if (!atEntry.contains(symbol))
        numbers.try_emplace(symbol, definitions.size());
    definitions.push_back({&call, &call});
  }

  /// To behind the last definition of a symbol that it is about; to the start of the program,
  /// before anything is written, if the inputs alone decide it.
  void moveUp(AssertOp assertion) {
    Definition *latest = nullptr;
    bool isOfInputs = true;
    assertion.getExpr().getValue().walkLeaves([&](sym::Expr leaf) {
      isOfInputs &= atEntry.contains(leaf);
      auto number = numbers.find(leaf);
      if (number != numbers.end())
        latest = std::max(latest, &definitions[number->second]);
    });
    bool isNew = asserted.insert(assertion.getExpr()).second;
    if (assertion == start && (!isNew || isOfInputs)) // it leaves, or stays before what is next
      start = assertion->getNextNode();
    else if (isNew && isOfInputs)
      assertion->moveBefore(start);
    if (!isNew)
      return assertion.erase();
    if (isOfInputs)
      return;
    if (!latest)
      return;
    assertion->moveAfter(latest->last);
    latest->last = assertion;
  }

  void assertRange(Definition &definition) {
    auto define = dyn_cast<DefineOp>(definition.op);
    if (!define)
      return;
    StringRef name = define.getSymbol();
    auto range = ranges ? ranges.getAs<DictionaryAttr>(name) : DictionaryAttr();
    if (!range)
      return;
    OpBuilder builder(define.getContext());
    builder.setInsertionPointAfter(definition.last);
    Location loc = define.getLoc();
    sym::Expr symbol = sym::Expr::symbol(name);
    auto assertBound = [&](IntegerAttr bound, sym::Expr expr, StringRef side) {
      auto attr = sym::ExprAttr::get(builder.getContext(), expr);
      if (asserted.insert(attr).second)
        AssertOp::create(builder, loc, attr,
                         builder.getStringAttr("expected " + name + " to be at " + side + " " +
                                               Twine(bound.getInt()) + " (" + sym::describe(loc) +
                                               ")"));
    };
    if (auto min = range.getAs<IntegerAttr>("min"))
      assertBound(min, symbol - min.getInt(), "least");
    if (auto max = range.getAs<IntegerAttr>("max"))
      assertBound(max, max.getInt() - symbol, "most");
  }

  Block &block;
  DictionaryAttr ranges;
  const llvm::DenseSet<sym::Expr> &atEntry;
  Operation *start = nullptr; // what came first before assertions were moved
  SmallVector<Definition> definitions;
  DenseMap<sym::Expr, size_t> numbers;
  llvm::DenseSet<Attribute> asserted;
};

struct GuardSymbols : kiln::impl::KernelGuardSymbolsBase<GuardSymbols> {
  void runOnOperation() override {
    auto ranges = getOperation()->getAttrOfType<DictionaryAttr>(sym::symbolsAttrName);
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        Guard(block, ranges, symbolsAtEntry(function)).run();
  }
};

} // namespace
