// Facts about symbols and dims, and what follows from them.
#include "kiln/Sym/Assumptions.h"
#include "Prover.h"
#include <numeric>

using namespace kiln::sym;
using namespace kiln::sym::detail;

void Assumptions::Answers::clear() {
  simplified.clear();
  nonNegative.clear();
  numDims = 0;
}

void Assumptions::forget(Expr leaf) {
  // A new dim is in none of the questions.
  if (leaf.kind() != Kind::Dim || leaf.dimIndex() < answers.numDims)
    answers.clear();
}

void Assumptions::setRange(Expr leaf, Range range) {
  assert((leaf.kind() == Kind::Symbol || leaf.kind() == Kind::Dim) && "not a leaf");
  forget(leaf);
  ranges[leaf] = range;
}

void Assumptions::setExtent(unsigned dim, Expr extent) {
  forget(Expr::dim(dim));
  answers.numDims = std::max(answers.numDims, extent.numDimsUsed());
  extents[dim] = extent;
}

Range Assumptions::rangeOf(Expr expr) const { return Prover(ranges, extents, expr).range(expr); }

bool Assumptions::isNonNegative(Expr expr) const {
  if (std::optional<int64_t> value = expr.constant())
    return *value >= 0;
  auto [it, isNew] = answers.nonNegative.try_emplace(expr);
  if (isNew) {
    it->second = Prover(ranges, extents, expr).isNonNegative(expr);
    answers.numDims = std::max(answers.numDims, expr.numDimsUsed());
  }
  return it->second;
}

bool Assumptions::isEqual(Expr a, Expr b) const {
  if (!a.isValid() || !b.isValid())
    return false;
  if (a == b)
    return true;
  Expr difference = simplify(a - b);
  if (difference.isConstant())
    return difference.isConstant(0);
  return provesEqual(difference, 0);
}

bool Assumptions::provesEqual(Expr a, Expr b) const {
  Expr difference = a - b;
  if (!difference.isValid())
    return false;
  Prover prover(ranges, extents, difference);
  return prover.isNonNegative(difference) && prover.isNonNegative(-difference);
}

/// A number that divides `expr`; 0 for the expression 0.
static uint64_t knownFactor(Expr expr) {
  uint64_t factor = 0;
  for (Term term : termsOf(expr)) {
    uint64_t product = magnitude(term.coefficient);
    for (Expr atom : atomsOf(term.monomial)) {
      if (atom.kind() != Kind::Min && atom.kind() != Kind::Max)
        continue;
      uint64_t common = 0;
      for (Expr operand : atom.operands())
        common = std::gcd(common, knownFactor(operand));
      if (__builtin_mul_overflow(product, common, &product))
        return 1;
    }
    factor = std::gcd(factor, product);
  }
  return factor;
}

bool Assumptions::isMultipleOf(Expr expr, Expr divisor) const {
  if (!expr.isValid() || !divisor.isValid())
    return false;
  if (expr.isConstant(0) || divideExactly(expr, divisor))
    return true;
  if (std::optional<int64_t> m = divisor.constant()) {
    if (*m == 0)
      return false;
    uint64_t factor = knownFactor(expr);
    if (factor != 0 && factor % magnitude(*m) == 0)
      return true;
  }
  return simplify(expr.mod(divisor)).isConstant(0);
}
