// Assumptions::simplify: the rewrites of floordiv, min and max that need ranges.
#include "Prover.h"
#include <numeric>

using namespace kiln::sym;
using namespace kiln::sym::detail;

namespace {

class Simplifier {
public:
  explicit Simplifier(Prover &prover) : prover(prover) {}

  Expr simplify(Expr expr) {
    if (!Node::of(expr).hasLeaves)
      return expr;
    if (auto it = memo.find(expr); it != memo.end())
      return it->second;
    Expr result = rewrite(expr);
    // Rewrites shrink what is divided or drop an operand; the limit guards against one that does
    // not.
    constexpr unsigned maxRounds = 32;
    if (result != expr && result.isValid() && rounds < maxRounds) {
      ++rounds;
      result = simplify(result);
      --rounds;
    }
    return memo[expr] = result.isValid() ? result : expr;
  }

private:
  Expr rewrite(Expr expr) {
    llvm::ArrayRef<Expr> operands = expr.operands();
    if (operands.empty()) {
      Range range = prover.interval(expr);
      return range.min && range.min == range.max ? Expr(*range.min) : expr;
    }
    llvm::SmallVector<Expr, 8> simplified;
    for (Expr operand : operands)
      simplified.push_back(simplify(operand));
    bool changed = llvm::ArrayRef<Expr>(simplified) != operands;
    switch (expr.kind()) {
    case Kind::Add:
      return changed ? sum(simplified) : expr;
    case Kind::Mul:
      return changed ? product(simplified) : expr;
    case Kind::FloorDiv:
      return changed ? simplified[0].floorDiv(simplified[1])
                     : divide(operands[0], operands[1], expr);
    default:
      return dropOperands(expr.kind(), simplified);
    }
  }

  Expr dropOperands(Kind kind, llvm::SmallVector<Expr, 8> &operands) {
    constexpr size_t maxCompared = 16; // all pairs are
    // x is not needed in min(x, y) when y <= x; of two equal ones the first stays.
    for (size_t i = 0; i < operands.size() && operands.size() <= maxCompared; ++i) {
      for (size_t j = 0; j < operands.size(); ++j) {
        Expr difference = operands[i] - operands[j];
        if (i == j || !prover.isNonNegative(kind == Kind::Min ? difference : -difference))
          continue;
        operands.erase(operands.begin() + i--);
        break;
      }
    }
    Expr result = operands.front();
    for (Expr operand : llvm::drop_begin(operands))
      result = kind == Kind::Min ? Expr::min(result, operand) : Expr::max(result, operand);
    return result;
  }

  /// Sums of leaves that do not depend on each other: no proof finds more than their intervals.
  bool hasExactInterval(Expr x) {
    return llvm::all_of(termsOf(x), [&](const Term &term) {
      if (term.monomial.kind() != Kind::Dim)
        return term.isConstant() || term.monomial.kind() == Kind::Symbol;
      std::optional<Expr> extent = prover.extentOf(term.monomial);
      return !extent || extent->isConstant();
    });
  }

  /// The k with k*m <= x < (k + 1)*m, for m >= 1.
  std::optional<int64_t> constantQuotient(Expr x, Expr m) {
    if (std::optional<int64_t> divisor = m.constant()) {
      Range range = prover.interval(x);
      auto quotient = [&]() -> std::optional<int64_t> {
        if (!range.min || !range.max)
          return std::nullopt;
        int64_t k = floorDivide(*range.min, *divisor);
        return k == floorDivide(*range.max, *divisor) ? std::optional(k) : std::nullopt;
      };
      if (std::optional<int64_t> k = quotient())
        return k;
      if (hasExactInterval(x))
        return std::nullopt;
      range = prover.range(x);
      return quotient();
    }
    if (prover.isNonNegative(x))
      return prover.isNonNegative(m - 1 - x) ? std::optional<int64_t>(0) : std::nullopt;
    if (prover.isNonNegative(-x - 1) && prover.isNonNegative(m + x))
      return -1;
    return std::nullopt;
  }

  /// x floordiv m, where both are simplified and the canonical form has nothing more to say.
  Expr divide(Expr x, Expr m, Expr unchanged) {
    if (!prover.isAtLeast(m, 1))
      return unchanged;
    if (!m.isConstant()) { // the canonical form has done it for a constant
      auto [quotient, remainder] = dividePolynomial(x, m);
      // For a divisor of several terms taking out a multiple may leave more than there was.
      if (!quotient.isConstant(0) &&
          (m.kind() != Kind::Add || termsOf(remainder).size() < termsOf(x).size()))
        return quotient + remainder.floorDiv(m);
    }
    if (std::optional<int64_t> k = constantQuotient(x, m))
      return *k;
    if (!m.isConstant())
      if (std::optional<Expr> merged = mergeNested(x, m))
        return *merged;
    for (Expr factor : commonFactors(x, m))
      if (std::optional<Expr> reduced = divideByFactor(x, m, factor))
        return *reduced;
    Terms terms = termsOf(x);
    int64_t lead = leadingCoefficient(terms);
    if (!m.isConstant() && (lead ? lead : terms.front().coefficient) < 0)
      return -(m - 1 - x).floorDiv(m);
    return unchanged;
  }

  /// ((y floordiv a) + c) floordiv m is (y + a*c) floordiv (a*m) for m >= 1.
  static std::optional<Expr> mergeNested(Expr x, Expr m) {
    Terms terms = termsOf(x);
    int64_t constant = 0;
    if (terms.front().isConstant()) {
      constant = terms.front().coefficient;
      terms.erase(terms.begin());
    }
    if (terms.size() != 1 || terms.front().coefficient != 1 ||
        terms.front().monomial.kind() != Kind::FloorDiv)
      return std::nullopt;
    llvm::ArrayRef<Expr> inner = terms.front().monomial.operands();
    return (inner[0] + inner[1] * constant).floorDiv(inner[1] * m);
  }

  /// (g*a + r) floordiv (g*c) is (a + r floordiv g) floordiv c; a gain when r floordiv g is known.
  std::optional<Expr> divideByFactor(Expr x, Expr m, Expr factor) {
    std::optional<Expr> c = divideExactly(m, factor);
    if (!c || !prover.isAtLeast(*c, 1)) // and so factor >= 1, as m is
      return std::nullopt;
    llvm::SmallVector<Expr, 8> multiples, others;
    if (termsOf(factor).size() == 1) {
      for (Term term : termsOf(x)) {
        std::optional<Expr> quotient;
        if (!term.isConstant() || factor.isConstant())
          quotient = divideExactly(fromTerm(term), factor);
        if (quotient)
          multiples.push_back(*quotient);
        else
          others.push_back(fromTerm(term));
      }
    } else {
      auto [quotient, remainder] = dividePolynomial(x, factor);
      multiples.push_back(quotient);
      others.push_back(remainder);
    }
    Expr multiple = sum(multiples);
    if (multiple.isConstant(0))
      return std::nullopt;
    std::optional<int64_t> k = constantQuotient(sum(others), factor);
    if (!k)
      return std::nullopt;
    return (multiple + *k).floorDiv(*c);
  }

  /// Divisors of `m` that may also divide most of `x`, greatest first as far as that is known.
  llvm::SmallVector<Expr, 8> commonFactors(Expr x, Expr m) {
    llvm::SmallVector<Expr, 8> factors;
    constexpr size_t maxFactors = 16;
    auto add = [&](Expr factor) {
      if (factors.size() < maxFactors && !factor.isConstant(1) && factor.isValid() &&
          !llvm::is_contained(factors, factor))
        factors.push_back(factor);
    };
    // The divisor's content: the greatest common divisor of its terms.
    Terms terms = termsOf(m);
    Term content = terms.front();
    for (Term term : terms)
      content = common(content, term);
    if (content.coefficient < 0)
      return factors;
    Terms candidates;
    for (Term term : termsOf(x))
      if (!term.isConstant())
        candidates.push_back(common(content, term));
    llvm::sort(candidates, [](const Term &a, const Term &b) {
      size_t m = atomsOf(a.monomial).size(), n = atomsOf(b.monomial).size();
      return m != n                           ? m > n
             : a.coefficient != b.coefficient ? a.coefficient > b.coefficient
                                              : compare(a.monomial, b.monomial) < 0;
    });
    Term all = content; // what the first few have in common
    for (Term candidate : candidates) {
      all = common(all, candidate);
      add(fromTerm(candidate));
      add(fromTerm(all));
    }
    if (terms.size() > 1) {
      // Sizes such as s0 + 1 are what flattened indices are multiples of.
      if (std::optional<Expr> primitive = divideExactly(m, fromTerm(content)))
        add(*primitive);
      x.walkLeaves([&](Expr leaf) {
        if (leaf.kind() == Kind::Dim)
          if (std::optional<Expr> extent = prover.extentOf(leaf); extent && !extent->isConstant())
            add(*extent);
      });
    }
    return factors;
  }

  /// Greatest common divisor of two monomials with coefficients.
  static Term common(Term a, Term b) {
    llvm::ArrayRef<Expr> x = atomsOf(a.monomial), y = atomsOf(b.monomial);
    llvm::SmallVector<Expr, 4> atoms;
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(atoms),
                          [](Expr m, Expr n) { return compare(m, n) < 0; });
    uint64_t g = std::gcd(magnitude(a.coefficient), magnitude(b.coefficient));
    return {fromAtoms(atoms), static_cast<int64_t>(g)};
  }

  Prover &prover;
  llvm::DenseMap<Expr, Expr> memo;
  unsigned rounds = 0;
};

} // namespace

Expr Assumptions::simplify(Expr expr) const {
  if (!expr.isValid())
    return expr;
  // A dim alone stays itself even if its extent is 1.
  if (expr.kind() == Kind::Dim || expr.isConstant())
    return expr;
  auto [it, isNew] = answers.simplified.try_emplace(expr);
  if (isNew) {
    Prover prover(ranges, extents, expr);
    it->second = Simplifier(prover).simplify(expr);
    answers.numDims = std::max(answers.numDims, expr.numDimsUsed());
  }
  return it->second;
}
