// Ranges of leaves from what is assumed, and of everything else by interval arithmetic.
#include "Interval.h"
#include "Prover.h"
#include "llvm/ADT/DenseSet.h"

using namespace kiln::sym;
using namespace kiln::sym::detail;

Prover::Prover(const llvm::DenseMap<Expr, Range> &ranges,
               const llvm::DenseMap<unsigned, Expr> &extents, Expr root)
    : ranges(ranges), extents(extents) {
  llvm::SmallVector<Expr, 8> dims;
  llvm::SmallDenseSet<Expr, 8> seen;
  auto collect = [&](Expr expr) {
    if (expr.hasDims())
      expr.walkLeaves([&](Expr leaf) {
        if (leaf.kind() == Kind::Dim && seen.insert(leaf).second)
          dims.push_back(leaf);
      });
  };
  collect(root);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (std::optional<Expr> extent = extentOf(dims[i])) {
      collect(*extent);
      assumeNotEmpty(*extent);
    }
  }
}

std::optional<Expr> Prover::extentOf(Expr dim) const {
  auto it = extents.find(dim.dimIndex());
  return it == extents.end() ? std::nullopt : std::optional<Expr>(it->second);
}

/// extent >= 1, solved for a symbol: c*s + k >= 1, or s*t >= 1 where s, t >= 0.
void Prover::assumeNotEmpty(Expr extent) {
  if (extent.hasDims() || !extent.isValid())
    return;
  Terms terms = termsOf(extent);
  int64_t constant = 0;
  if (!terms.empty() && terms.front().isConstant()) {
    constant = terms.front().coefficient;
    terms.erase(terms.begin());
  }
  if (terms.size() != 1)
    return;
  Term term = terms.front();
  llvm::ArrayRef<Expr> atoms = atomsOf(term.monomial);
  int64_t least = 0; // term >= least
  if (!llvm::all_of(atoms, [](Expr atom) { return atom.kind() == Kind::Symbol; }) ||
      __builtin_sub_overflow(1, constant, &least) || term.coefficient == INT64_MIN ||
      least == INT64_MIN)
    return;
  if (atoms.size() == 1) {
    int64_t bound = floorDivide(least, term.coefficient);
    if (term.coefficient > 0)
      intersect(tightened[atoms.front()], {-floorDivide(-least, term.coefficient), {}});
    else
      intersect(tightened[atoms.front()], {{}, bound});
  } else if (term.coefficient > 0 && least >= 1 && llvm::all_of(atoms, [&](Expr atom) {
               return leafRange(atom).min.value_or(-1) >= 0;
             })) {
    for (Expr atom : atoms)
      intersect(tightened[atom], {1, {}});
  }
}

Range Prover::leafRange(Expr leaf) {
  Range range = ranges.lookup(leaf);
  if (auto it = tightened.find(leaf); it != tightened.end())
    intersect(range, it->second);
  return range;
}

Range Prover::interval(Expr expr) {
  if (std::optional<int64_t> value = expr.constant())
    return {value, value};
  if (auto it = intervals.find(expr); it != intervals.end())
    return it->second;
  intervals[expr] = {}; // an extent that depends on its own dim finds this
  Range range = computeInterval(expr);
  intervals[expr] = range;
  return range;
}

Range Prover::computeInterval(Expr expr) {
  llvm::ArrayRef<Expr> operands = expr.operands();
  auto of = [&](Expr operand) { return Interval::of(interval(operand)); };
  switch (expr.kind()) {
  case Kind::Symbol:
    return leafRange(expr);
  case Kind::Dim: {
    Range range = leafRange(expr);
    if (std::optional<Expr> extent = extentOf(expr); extent && depth < maxProofDepth) {
      ++depth;
      intersect(range, {0, interval(*extent - 1).max});
      --depth;
    }
    return range;
  }
  case Kind::Add: {
    Interval result{0, 0};
    for (Expr operand : operands)
      result = result + of(operand);
    return result.range();
  }
  case Kind::Mul: {
    Interval result{1, 1};
    for (size_t i = 0, n; i < operands.size(); i += n) {
      n = std::find_if(operands.begin() + i, operands.end(),
                       [&](Expr other) { return other != operands[i]; }) -
          (operands.begin() + i);
      Interval power{1, 1};
      for (size_t k = 0; k < n; ++k)
        power = power * of(operands[i]);
      if (n % 2 == 0)
        power.min = std::max<__int128>(power.min, 0);
      result = result * power;
    }
    return result.range();
  }
  case Kind::FloorDiv: {
    Interval divisor = of(operands[1]);
    // Both ends are looked at because min > max where no point is allowed.
    if (!(divisor.min > 0 && divisor.max > 0) && !(divisor.min < 0 && divisor.max < 0))
      return {};
    return of(operands[0]).floorDiv(divisor).range();
  }
  case Kind::Min:
  case Kind::Max: {
    Interval result = of(operands.front());
    for (Expr operand : operands.drop_front()) {
      Interval other = of(operand);
      result = expr.kind() == Kind::Min
                   ? Interval{std::min(result.min, other.min), std::min(result.max, other.max)}
                   : Interval{std::max(result.min, other.min), std::max(result.max, other.max)};
    }
    return result.range();
  }
  default:
    return {};
  }
}
