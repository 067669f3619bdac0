// Guards are a set of expressions that must be at least zero. An `and` is a min, so it comes apart;
// a pair x, -x is an equality.
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Sym/RewriteExprs.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <cmath>
#include <numeric>

namespace kiln {
#define GEN_PASS_DEF_TORCHSIMPLIFYGUARDS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using sym::Expr;

namespace {

struct Guard {
  Expr expr; // at least zero
  StringAttr text;
};

/// A product whose value is known.
struct Product {
  SmallVector<Expr> factors; // no constant; repeated for powers
  Expr value;
};

/// The symbols of an expression.
llvm::SetVector<Expr> symbolsOf(Expr expr) {
  llvm::SetVector<Expr> symbols;
  expr.walkLeaves([&](Expr leaf) { symbols.insert(leaf); });
  return symbols;
}

/// An expression that is at least zero where `expr` is: of k * (n floordiv d) + c for constants k,
/// d and c, one that is linear in n.
Expr withoutDivision(Expr expr) {
  SmallVector<Expr> terms{expr};
  if (expr.kind() == sym::Kind::Add)
    terms.assign(expr.operands().begin(), expr.operands().end());
  int64_t c = 0, k = 1;
  if (terms.size() == 2 && terms.front().isConstant()) {
    c = *terms.front().constant();
    terms.erase(terms.begin());
  }
  Expr quotient = terms.front();
  if (quotient.kind() == sym::Kind::Mul && quotient.operands().size() == 2 &&
      quotient.operands().front().isConstant()) {
    k = *quotient.operands().front().constant();
    quotient = quotient.operands().back();
  }
  if (terms.size() != 1 || quotient.kind() != sym::Kind::FloorDiv)
    return expr;
  Expr n = quotient.operands().front(), d = quotient.operands().back();
  if (!d.isConstant() || *d.constant() <= 0 || k == INT64_MIN)
    return expr;
  Expr result = k > 0 ? n - d * (-Expr(c)).ceilDiv(k) : d * (Expr(c).floorDiv(-k) + 1) - 1 - n;
  return result.isValid() ? withoutDivision(result) : expr;
}

/// slope * s + offset, at most or at least an expression over the one symbol s.
struct Line {
  double slope, offset;
};

/// A line above `expr`, or one below it: rounding moves a quotient by less than one.
std::optional<Line> boundByLine(Expr expr, bool above) {
  switch (expr.kind()) {
  case sym::Kind::Constant:
    return Line{0, static_cast<double>(*expr.constant())};
  case sym::Kind::Symbol:
    return Line{1, 0};
  case sym::Kind::Add: {
    Line sum{0, 0};
    for (Expr term : expr.operands()) {
      std::optional<Line> line = boundByLine(term, above);
      if (!line)
        return std::nullopt;
      sum = {sum.slope + line->slope, sum.offset + line->offset};
    }
    return sum;
  }
  case sym::Kind::Mul: {
    std::optional<int64_t> factor = expr.operands().front().constant();
    if (!factor || expr.operands().size() != 2)
      return std::nullopt;
    std::optional<Line> line = boundByLine(expr.operands().back(), above == (*factor > 0));
    auto k = static_cast<double>(*factor);
    return line ? std::optional(Line{line->slope * k, line->offset * k}) : std::nullopt;
  }
  case sym::Kind::FloorDiv: {
    std::optional<int64_t> divisor = expr.operands().back().constant();
    if (!divisor)
      return std::nullopt;
    std::optional<Line> line = boundByLine(expr.operands().front(), above == (*divisor > 0));
    auto d = static_cast<double>(*divisor);
    return line ? std::optional(Line{line->slope / d, line->offset / d - (above ? 0 : 1)})
                : std::nullopt;
  }
  default:
    return std::nullopt;
  }
}

class Simplification {
public:
  explicit Simplification(ModuleOp module) : module(module), builder(module.getContext()) {}

  LogicalResult run() {
    readModule();
    // Each round that changes something drops a guard, a symbol or values of a range.
    constexpr unsigned maxRounds = 64;
    bool changed = true;
    for (unsigned round = 0; changed && round < maxRounds; ++round) {
      changed = false;
      if (failed(dropProved(changed)))
        return failure();
      if (eliminateSymbol()) {
        changed = true;
        continue;
      }
      FailureOr<bool> narrowed = narrowRanges();
      if (failed(narrowed))
        return failure();
      changed |= *narrowed;
      changed |= fixSymbol();
    }
    findProducts();
    writeModule();
    return success();
  }

private:
  //===-- The module ----------------------------------------------------------------------===//

  void readModule() {
    if (auto symbols = module->getAttrOfType<DictionaryAttr>(torch::symbolsAttrName))
      for (NamedAttribute symbol : symbols)
        ranges[Expr::symbol(symbol.getName().getValue())] =
            readRange(cast<DictionaryAttr>(symbol.getValue()));
    // A symbol of an input's size can be replaced; one that the program defines cannot.
    AttrTypeWalker walker;
    auto learn = [&](ArrayRef<Expr> exprs) {
      for (Expr expr : exprs)
        inputSymbols.insert_range(symbolsOf(expr));
    };
    walker.addWalk([&](sym::ShapeAttr shape) { learn(shape.getSizes()); });
    if (auto main = module.lookupSymbol<func::FuncOp>("main"))
      for (unsigned i = 0; i < main.getNumArguments(); ++i) {
        walker.walk(main.getArgumentTypes()[i]);
        if (DictionaryAttr attrs = main.getArgAttrDict(i))
          walker.walk(attrs);
      }
    if (auto guards = module->getAttrOfType<ArrayAttr>(torch::guardsAttrName))
      for (auto guard : guards.getAsRange<DictionaryAttr>())
        add(guard.getAs<sym::ExprAttr>("expr").getValue(), guard.getAs<StringAttr>("text"));
    if (auto derived = module->getAttrOfType<ArrayAttr>(torch::rangesAttrName))
      for (auto entry : derived.getAsRange<DictionaryAttr>())
        addRange(entry.getAs<sym::ExprAttr>("expr").getValue(), readRange(entry));
  }

  static sym::Range readRange(DictionaryAttr attrs) {
    auto bound = [&](StringRef name) -> std::optional<int64_t> {
      if (auto value = attrs.getAs<IntegerAttr>(name))
        return value.getInt();
      return std::nullopt;
    };
    return {bound("min"), bound("max")};
  }

  void writeModule() {
    NamedAttrList symbols;
    for (auto &[symbol, range] : ranges) {
      NamedAttrList attrs;
      if (range.min)
        attrs.set("min", builder.getI64IntegerAttr(*range.min));
      if (range.max)
        attrs.set("max", builder.getI64IntegerAttr(*range.max));
      symbols.set(symbol.symbolName(), attrs.getDictionary(builder.getContext()));
    }
    // Guards themselves, which are written below, keep what they say.
    if (!eliminated.empty() || !products.empty())
      sym::rewriteExprs(
          module, [&](Expr expr) { return replaceProducts(substitute(expr)); }, /*inMaps=*/true);
    SmallVector<Attribute> left;
    for (const Guard &guard : guards) {
      NamedAttrList attrs;
      attrs.set("expr", sym::ExprAttr::get(builder.getContext(), guard.expr));
      attrs.set("text", guard.text);
      left.push_back(attrs.getDictionary(builder.getContext()));
    }
    if (!symbols.empty())
      module->setAttr(torch::symbolsAttrName, symbols.getDictionary(builder.getContext()));
    else
      module->removeAttr(torch::symbolsAttrName);
    module->removeAttr(torch::rangesAttrName);
    if (!left.empty())
      module->setAttr(torch::guardsAttrName, builder.getArrayAttr(left));
    else
      module->removeAttr(torch::guardsAttrName);
  }

  //===-- Guards --------------------------------------------------------------------------===//

  /// min(a, b) >= 0 is a >= 0 and b >= 0.
  void add(Expr expr, StringAttr text) {
    if (expr.kind() == sym::Kind::Min) {
      for (Expr operand : expr.operands())
        add(operand, text);
      return;
    }
    expr = withoutDivision(expr);
    if (llvm::none_of(guards, [&](const Guard &guard) { return guard.expr == expr; }))
      guards.push_back({expr, text});
  }

  void addRange(Expr expr, sym::Range range) {
    if (range.min)
      add(expr - *range.min, builder.getStringAttr(expr.str() + " >= " + Twine(*range.min)));
    if (range.max)
      add(*range.max - expr, builder.getStringAttr(expr.str() + " <= " + Twine(*range.max)));
  }

  sym::Assumptions getAssumptions() {
    sym::Assumptions assumptions;
    for (auto &[symbol, range] : ranges)
      assumptions.setRange(symbol, range);
    return assumptions;
  }

  LogicalResult dropProved(bool &changed) {
    sym::Assumptions assumptions = getAssumptions();
    SmallVector<Guard> old = std::move(guards);
    guards.clear();
    for (const Guard &guard : old) {
      Expr expr = assumptions.simplify(guard.expr);
      if (assumptions.isNonNegative(expr)) {
        changed = true;
        continue;
      }
      if (assumptions.isNonNegative(-expr - 1))
        return neverHolds(guard);
      add(expr, guard.text);
    }
    return success();
  }

  //===-- Equalities ----------------------------------------------------------------------===//

  Expr substitute(Expr expr) {
    for (auto &[symbol, value] : eliminated)
      if (expr.dependsOn(symbol))
        expr = expr.substitute([&, symbol = symbol, value = value](Expr leaf) {
          return leaf == symbol ? std::optional<Expr>(value) : std::nullopt;
        });
    return expr;
  }

  /// Puts an expression in place of one symbol that an equality gives.
  bool eliminateSymbol() {
    for (const Guard &guard : guards) {
      if (llvm::none_of(guards, [&](const Guard &other) { return other.expr == -guard.expr; }))
        continue;
      // The latest symbol: what is derived from others mostly comes after them.
      llvm::SetVector<Expr> symbols = symbolsOf(guard.expr);
      for (Expr symbol : llvm::reverse(symbols)) {
        std::optional<sym::Linear> linear = sym::splitLinear(guard.expr, symbol);
        if (!inputSymbols.contains(symbol) || !ranges.contains(symbol) || !linear ||
            (!linear->coefficient.isConstant(1) && !linear->coefficient.isConstant(-1)))
          continue;
        if (llvm::any_of(symbolsOf(linear->rest),
                         [&](Expr other) { return !inputSymbols.contains(other); }))
          continue;
        replace(symbol, linear->coefficient.isConstant(1) ? -linear->rest : linear->rest);
        return true;
      }
    }
    return false;
  }

  /// Puts the one value that is left of a range in place of its symbol.
  bool fixSymbol() {
    for (auto &[symbol, range] : ranges)
      if (range.min && range.min == range.max && inputSymbols.contains(symbol)) {
        replace(symbol, Expr(*range.min));
        return true;
      }
    return false;
  }

  void replace(Expr symbol, Expr value) {
    sym::Range range = ranges.lookup(symbol);
    ranges.erase(symbol);
    eliminated.push_back({symbol, value});
    SmallVector<Guard> old = std::move(guards);
    guards.clear();
    for (const Guard &guard : old)
      add(substitute(guard.expr), guard.text);
    addRange(value, range);
  }

  /// Whether a guard holds with equality alone.
  bool isEquality(const Guard &guard, const sym::Assumptions &assumptions) {
    return assumptions.isNonNegative(-guard.expr) ||
           llvm::any_of(guards, [&](const Guard &other) { return other.expr == -guard.expr; });
  }

  /// Products that are a constant, as `s0*s1 == 64` says. What an input's size is made of stays:
  /// the symbols are read from it.
  void findProducts() {
    sym::Assumptions assumptions = getAssumptions();
    for (const Guard &guard : guards) {
      ArrayRef<Expr> terms = guard.expr.operands();
      if (guard.expr.kind() != sym::Kind::Add || terms.size() != 2 || !terms[0].isConstant() ||
          terms[1].kind() != sym::Kind::Mul || !isEquality(guard, assumptions))
        continue;
      ArrayRef<Expr> factors = terms[1].operands();
      int64_t coefficient = factors[0].constant().value_or(1);
      Product product{SmallVector<Expr>(factors.drop_front(factors[0].isConstant())),
                      (-terms[0]).floorDiv(coefficient)};
      if (product.factors.size() < 2 || (product.value * coefficient + terms[0]) != Expr(0))
        continue;
      auto isNew = [&](const Product &other) { return other.factors != product.factors; };
      if (llvm::all_of(products, isNew) && !isPartOfInput(product))
        products.push_back(std::move(product));
    }
  }

  bool isPartOfInput(const Product &product) {
    bool found = false;
    AttrTypeWalker walker;
    walker.addWalk([&](sym::ShapeAttr shape) {
      for (Expr size : shape.getSizes())
        found |= replaceProducts(substitute(size), product) != substitute(size);
    });
    if (auto main = module.lookupSymbol<func::FuncOp>("main"))
      for (Type type : main.getArgumentTypes())
        walker.walk(type);
    return found;
  }

  Expr replaceProducts(Expr expr) {
    for (const Product &product : products)
      expr = replaceProducts(expr, product);
    return expr;
  }

  static Expr replaceProducts(Expr expr, const Product &product) {
    SmallVector<Expr> operands;
    if (!expr.isValid() || expr.operands().empty())
      return expr;
    for (Expr operand : expr.operands())
      operands.push_back(replaceProducts(operand, product));
    auto fold = [&](auto combine) {
      return std::accumulate(operands.begin() + 1, operands.end(), operands[0], combine);
    };
    switch (expr.kind()) {
    case sym::Kind::Add:
      return fold([](Expr a, Expr b) { return a + b; });
    case sym::Kind::FloorDiv:
      return operands[0].floorDiv(operands[1]);
    case sym::Kind::Min:
      return fold([](Expr a, Expr b) { return Expr::min(a, b); });
    case sym::Kind::Max:
      return fold([](Expr a, Expr b) { return Expr::max(a, b); });
    default:
      break;
    }
    SmallVector<Expr> rest(expr.operands());
    for (Expr factor : product.factors) {
      auto it = llvm::find(rest, factor);
      if (it == rest.end())
        return fold([](Expr a, Expr b) { return a * b; });
      rest.erase(it);
    }
    return std::accumulate(rest.begin(), rest.end(), product.value,
                           [&](Expr a, Expr b) { return a * replaceProducts(b, product); });
  }

  //===-- Ranges --------------------------------------------------------------------------===//

  /// Moves an end of a symbol's range that a guard on this symbol alone rules out.
  FailureOr<bool> narrowRanges() {
    constexpr unsigned maxSteps = 8; // at one end, for guards that are not linear
    bool changed = false;
    for (const Guard &guard : guards) {
      llvm::SetVector<Expr> symbols = symbolsOf(guard.expr);
      if (symbols.size() != 1 || !ranges.contains(symbols[0]))
        continue;
      sym::Range &range = ranges[symbols[0]];
      if (std::optional<sym::Linear> linear = sym::splitLinear(guard.expr, symbols[0])) {
        std::optional<int64_t> c = linear->coefficient.constant(), k = linear->rest.constant();
        if (!c || !k || *c == INT64_MIN || *k == INT64_MIN)
          continue;
        if (failed(narrow(guard, range, *c, *k, changed)))
          return failure();
        continue;
      }
      changed |= narrowByLine(guard.expr, range);
      auto fails = [&](int64_t value) {
        std::optional<int64_t> result = guard.expr.evaluate([&](Expr) { return value; });
        return result && *result < 0;
      };
      for (unsigned step = 0; step < maxSteps && range.min && fails(*range.min); ++step) {
        ++*range.min;
        changed = true;
      }
      for (unsigned step = 0; step < maxSteps && range.max && fails(*range.max); ++step) {
        --*range.max;
        changed = true;
      }
      if (isEmpty(range))
        return neverHolds(guard);
    }
    return changed;
  }

  /// Rounded quotients are narrowed to within two of the end that the guard gives.
  static bool narrowByLine(Expr expr, sym::Range &range) {
    constexpr double exact = 1LL << 40; // up to which the arithmetic's own rounding is below one
    std::optional<Line> line = boundByLine(expr, /*above=*/true);
    if (!line || line->slope == 0 || std::abs(line->offset) > exact)
      return false;
    double crossing = -line->offset / line->slope;
    if (std::abs(crossing) > exact)
      return false;
    bool isMin = line->slope > 0;
    auto bound = static_cast<int64_t>(isMin ? std::ceil(crossing) - 1 : std::floor(crossing) + 1);
    std::optional<int64_t> &end = isMin ? range.min : range.max;
    if (end && (isMin ? *end >= bound : *end <= bound))
      return false;
    end = bound;
    return true;
  }

  /// c*s + k >= 0, for the symbol of `range`.
  LogicalResult narrow(const Guard &guard, sym::Range &range, int64_t c, int64_t k, bool &changed) {
    Expr bound = c > 0 ? Expr(-k).ceilDiv(c) : Expr(k).floorDiv(-c);
    std::optional<int64_t> &end = c > 0 ? range.min : range.max;
    int64_t value = *bound.constant();
    if (!end || (c > 0 ? value > *end : value < *end)) {
      end = value;
      changed = true;
    }
    return isEmpty(range) ? neverHolds(guard) : success();
  }

  static bool isEmpty(sym::Range range) {
    return range.min && range.max && *range.min > *range.max;
  }

  LogicalResult neverHolds(const Guard &guard) {
    return module.emitError("guard '") << guard.text.getValue() << "' never holds";
  }

  ModuleOp module;
  Builder builder;
  SmallVector<Guard> guards;
  llvm::MapVector<Expr, sym::Range> ranges;
  llvm::SetVector<Expr> inputSymbols;
  SmallVector<Product> products;
  SmallVector<std::pair<Expr, Expr>> eliminated; // in order: later values have no earlier symbols
};

struct SimplifyGuards : kiln::impl::TorchSimplifyGuardsBase<SimplifyGuards> {
  void runOnOperation() override {
    if (failed(Simplification(getOperation()).run()))
      signalPassFailure();
  }
};

} // namespace
