// Quotients that export simplifies wrongly. It writes (n // 100) // -3 as n // -300, which is
// another number unless the last divisor is positive. A node says what is computed; whatever is
// derived from its result has the recorded quotient in its sizes.
#include "Importer.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>
#include <random>

using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;
using sym::Kind;

/// `expr` with `by` in place of `atom`.
static Expr replaceAtom(Expr expr, Expr atom, Expr by) {
  if (expr == atom)
    return by;
  if (expr.operands().empty())
    return expr;
  SmallVector<Expr> operands;
  for (Expr operand : expr.operands())
    operands.push_back(replaceAtom(operand, atom, by));
  switch (expr.kind()) {
  case Kind::Add:
    return sym::sum(operands);
  case Kind::Mul:
    return sym::product(operands);
  case Kind::FloorDiv:
    return operands[0].floorDiv(operands[1]);
  case Kind::Min:
    return std::accumulate(operands.begin() + 1, operands.end(), operands[0], Expr::min);
  case Kind::Max:
    return std::accumulate(operands.begin() + 1, operands.end(), operands[0], Expr::max);
  default:
    return expr;
  }
}

Expr Importer::correct(Expr expr) const {
  for (auto [wrong, right] : corrections)
    expr = replaceAtom(expr, wrong, right);
  return expr;
}

/// True if the expressions have different values at some of the random sizes.
static bool differ(Expr a, Expr b) {
  constexpr unsigned samples = 64;
  constexpr int64_t most = 2000;
  std::mt19937 random; // the same numbers in every run
  for (unsigned i = 0; i < samples; ++i) {
    llvm::DenseMap<Expr, int64_t> values;
    auto value = [&](Expr leaf) {
      return values.try_emplace(leaf, 1 + static_cast<int64_t>(random() % most)).first->second;
    };
    std::optional<int64_t> x = a.evaluate(value), y = b.evaluate(value);
    if (x && y && *x != *y)
      return true;
  }
  return false;
}

static StringRef nameOf(const SymIntRef &number) {
  auto *name = std::get_if<std::string>(&number.value);
  return name ? StringRef(*name) : StringRef();
}

/// The quotient in `recorded` that has to be another one for the whole to be `computed`.
static std::optional<Correction> findCorrection(Expr recorded, Expr computed) {
  SmallVector<Expr> terms{recorded};
  if (recorded.kind() == Kind::Add)
    terms.assign(recorded.operands().begin(), recorded.operands().end());
  for (Expr term : terms) {
    int64_t factor = 1;
    Expr quotient = term;
    if (term.kind() == Kind::Mul && term.operands().size() == 2) {
      factor = term.operands().front().constant().value_or(0);
      quotient = term.operands().back();
    }
    if (quotient.kind() == Kind::FloorDiv && std::abs(factor) == 1)
      return Correction{quotient, quotient + (computed - recorded) * factor};
  }
  return std::nullopt;
}

void Importer::inheritCorrections(const Node &node) {
  corrections.clear();
  auto add = [&](StringRef name) {
    for (const Correction &correction : scope->corrections.lookup(name))
      if (!is_contained(corrections, correction))
        corrections.push_back(correction);
  };
  if (scope->corrections.empty())
    return;
  for (const NamedArgument &input : node.inputs) {
    const auto &value = input.arg.value;
    if (auto *tensor = std::get_if<TensorRef>(&value))
      add(tensor->name);
    else if (auto *tensors = std::get_if<std::vector<TensorRef>>(&value))
      for (const TensorRef &one : *tensors)
        add(one.name);
    else if (auto *optionals = std::get_if<std::vector<OptionalTensorRef>>(&value))
      for (const OptionalTensorRef &one : *optionals)
        add(one ? StringRef(one->name) : StringRef());
    else if (auto *number = std::get_if<SymIntRef>(&value))
      add(nameOf(*number));
    else if (auto *numbers = std::get_if<std::vector<SymIntRef>>(&value))
      for (const SymIntRef &one : *numbers)
        add(nameOf(one));
  }
}

void Importer::keepCorrections(StringRef result) {
  if (!corrections.empty())
    scope->corrections[result] = corrections;
}

void Importer::useAllCorrections() {
  corrections.clear();
  for (const auto &entry : scope->corrections)
    for (const Correction &correction : entry.second)
      if (!is_contained(corrections, correction))
        corrections.push_back(correction);
}

void Importer::useCorrectionsOf(StringRef name) { corrections = scope->corrections.lookup(name); }

Expr Importer::computeQuotient(const Node &node, Expr recorded) {
  if (node.target != "_operator.floordiv")
    return recorded;
  SmallVector<Expr> operands;
  for (const NamedArgument &input : node.inputs) {
    mlir::Attribute known;
    if (auto *number = std::get_if<SymIntRef>(&input.arg.value))
      known = scope->entries.lookup(nameOf(*number)).attribute;
    if (auto *constant = std::get_if<int64_t>(&input.arg.value))
      operands.push_back(*constant);
    else if (auto expr = dyn_cast_or_null<sym::ExprAttr>(known))
      operands.push_back(expr.getValue());
    else if (auto integer = dyn_cast_or_null<mlir::IntegerAttr>(known))
      operands.push_back(integer.getInt());
  }
  if (operands.size() != 2)
    return recorded;
  sym::Assumptions assumptions;
  for (auto &[symbol, range] : symbols.symbols())
    assumptions.setRange(symbol, range);
  Expr computed = operands[0].floorDiv(operands[1]);
  if (assumptions.isPositive(operands[1]) || !computed.isValid() || !differ(recorded, computed))
    return recorded;
  if (auto correction = findCorrection(recorded, computed))
    corrections.push_back(*correction);
  return computed;
}
