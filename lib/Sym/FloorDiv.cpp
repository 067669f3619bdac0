// Canonical floor division. Everything here holds for all integers; what needs to know a range is
// in Assumptions::simplify.
//
// By a constant m > 0 (write [x/m] for the floor):
//   [(q*m + r)/m]       = q + [r/m]          q the truncated quotient of each coefficient
//   [(g*x + c)/(g*m)]   = [(x + [c/g])/m]
//   [([x/a] + y)/m]     = [(x + a*y)/(a*m)]
//   [x/m]               = -[(m - 1 - x)/m]   used where x's sign is negative
// The last one makes x ceildiv m one node, [(x + m - 1)/m], however it was written. Coefficients
// keep their sign when they are reduced, so [-x/4] and [3*x/4] - x, which are equal, stay
// different: the alternative turns d0 - d1 into d0 + 3*d1.
#include "Node.h"
#include <numeric>

using namespace kiln::sym;
using namespace kiln::sym::detail;

/// [([x/a] + y)/m], where exactly one term of the numerator is a quotient with coefficient 1 or -1;
/// nullopt when there is none or the merged form does not fit.
static std::optional<Expr> mergeNested(llvm::ArrayRef<Term> rest, int64_t constant, int64_t m) {
  const Term *nested = nullptr;
  for (const Term &term : rest) {
    if (term.monomial.kind() != Kind::FloorDiv || magnitude(term.coefficient) != 1)
      continue;
    if (nested)
      return std::nullopt;
    nested = &term;
  }
  if (!nested)
    return std::nullopt;
  Expr x = nested->monomial.operands()[0], a = nested->monomial.operands()[1];
  // A symbolic divisor would be multiplied into every term.
  if (!a.isConstant() && rest.size() > 1)
    return std::nullopt;
  Expr y = fromTerms(rest) - fromTerm(*nested) + constant;
  bool negate = nested->coefficient < 0;
  if (negate)
    y = m - 1 - y;
  Expr numerator = x + a * y, denominator = a * m;
  if (!numerator.isValid() || !denominator.isValid())
    return std::nullopt;
  Expr merged = numerator.floorDiv(denominator);
  if (!merged.isValid())
    return std::nullopt;
  return negate ? -merged : merged;
}

static Expr divideByConstant(Expr numerator, int64_t m) {
  if (m == 0 || m == INT64_MIN)
    return Expr::invalid();
  if (m < 0)
    return divideByConstant(-numerator, -m);
  if (m == 1)
    return numerator;

  Terms quotient, rest;
  int64_t constant = 0;
  uint64_t g = m;
  for (Term term : termsOf(numerator)) {
    if (term.isConstant()) {
      constant = term.coefficient;
      continue;
    }
    if (int64_t q = term.coefficient / m)
      quotient.push_back({term.monomial, q});
    if (int64_t r = term.coefficient % m) {
      rest.push_back({term.monomial, r});
      g = std::gcd(g, magnitude(r));
    }
  }
  if (g > 1) {
    for (Term &term : rest)
      term.coefficient /= static_cast<int64_t>(g);
    constant = floorDivide(constant, g);
    m /= static_cast<int64_t>(g);
  }
  Expr outside = fromTerms(quotient) + floorDivide(constant, m);
  if (rest.empty())
    return outside;
  constant -= floorDivide(constant, m) * m;

  if (std::optional<Expr> merged = mergeNested(rest, constant, m))
    return outside + *merged;
  bool negate = leadingCoefficient(rest) < 0;
  if (negate) {
    for (Term &term : rest)
      term.coefficient = -term.coefficient;
    constant = m - 1 - constant;
  }
  if (constant)
    rest.insert(rest.begin(), Term{1, constant});
  Expr atom = intern(Kind::FloorDiv, 0, {}, {fromTerms(rest), Expr(m)});
  return negate ? outside - atom : outside + atom;
}

static Expr divideExact(llvm::ArrayRef<Term> terms, uint64_t divisor) {
  Terms result(terms);
  for (Term &term : result)
    term.coefficient /= static_cast<int64_t>(divisor);
  return fromTerms(result);
}

/// The divisor may be 0 or negative: only an exact common factor and the sign can be normalised.
static Expr divideBySymbolic(Expr numerator, Expr divisor) {
  if (numerator.isConstant(0))
    return 0;
  if (leadingCoefficient(termsOf(divisor)) < 0) {
    Expr x = -numerator, m = -divisor;
    if (x.isValid() && m.isValid())
      std::tie(numerator, divisor) = std::tie(x, m);
  }
  Terms x = termsOf(numerator), m = termsOf(divisor);
  uint64_t g = std::gcd(contentOf(x), contentOf(m));
  if (g > 1 && g <= INT64_MAX) {
    numerator = divideExact(x, g);
    divisor = divideExact(m, g);
  }
  return intern(Kind::FloorDiv, 0, {}, {numerator, divisor});
}

Expr Expr::floorDiv(Expr divisor) const {
  if (!isValid() || !divisor.isValid())
    return invalid();
  std::optional<int64_t> m = divisor.constant();
  return m ? divideByConstant(*this, *m) : divideBySymbolic(*this, divisor);
}

Expr Expr::ceilDiv(Expr divisor) const { return -(-*this).floorDiv(divisor); }

Expr Expr::mod(Expr divisor) const { return *this - divisor * floorDiv(divisor); }
