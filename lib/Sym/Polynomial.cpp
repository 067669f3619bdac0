// Sums and products: the polynomial part of the canonical form.
//
// A sum is a list of (monomial, coefficient) in canonical order, so addition is a merge; a product
// multiplies all pairs and sorts. Coefficients are gathered in 128 bits: only a final coefficient
// that leaves 64 bits makes the result invalid, not the order in which it was added up.
#include "Node.h"
#include <numeric>

using namespace kiln::sym;
using namespace kiln::sym::detail;

namespace {
struct WideTerm {
  Expr monomial;
  __int128 coefficient;
};
} // namespace

static bool fits(__int128 value) { return value == static_cast<int64_t>(value); }

llvm::ArrayRef<Expr> detail::atomsOf(const Expr &monomial) {
  if (monomial.kind() == Kind::Mul) {
    llvm::ArrayRef<Expr> atoms = monomial.operands();
    return atoms.front().isConstant() ? atoms.drop_front() : atoms;
  }
  return monomial.isConstant() ? llvm::ArrayRef<Expr>() : llvm::ArrayRef<Expr>(monomial);
}

Expr detail::fromAtoms(llvm::ArrayRef<Expr> atoms) {
  if (atoms.empty())
    return 1;
  if (atoms.size() == 1)
    return atoms.front();
  return atoms.size() > maxDegree ? Expr::invalid() : intern(Kind::Mul, 1, {}, atoms);
}

Expr detail::fromTerm(Term term) {
  if (term.isConstant())
    return term.coefficient;
  if (term.coefficient == 1)
    return term.monomial;
  llvm::SmallVector<Expr, 8> operands{Expr(term.coefficient)};
  llvm::append_range(operands, atomsOf(term.monomial));
  return intern(Kind::Mul, term.coefficient, {}, operands, &Node::of(term.monomial));
}

static Term asTerm(Expr expr) {
  const Node &node = Node::of(expr);
  if (node.kind == Kind::Constant)
    return {1, node.value};
  if (node.kind == Kind::Mul && node.monomial)
    return {Node::wrap(node.monomial), node.value};
  return {expr, 1};
}

Terms detail::termsOf(Expr expr) {
  Terms terms;
  if (expr.kind() == Kind::Add)
    for (Expr operand : expr.operands())
      terms.push_back(asTerm(operand));
  else if (!expr.isConstant(0))
    terms.push_back(asTerm(expr));
  return terms;
}

Expr detail::fromTerms(llvm::ArrayRef<Term> terms) {
  if (terms.empty())
    return 0;
  if (terms.size() == 1)
    return fromTerm(terms.front());
  if (terms.size() > maxTerms)
    return Expr::invalid();
  llvm::SmallVector<Expr, 8> operands;
  for (Term term : terms)
    operands.push_back(fromTerm(term));
  return intern(Kind::Add, 0, {}, operands);
}

std::optional<Expr> detail::divideMonomial(Expr a, Expr b) {
  llvm::SmallVector<Expr, 4> left;
  llvm::ArrayRef<Expr> factors = atomsOf(b);
  for (Expr atom : atomsOf(a)) { // both are sorted
    if (!factors.empty() && factors.front() == atom)
      factors = factors.drop_front();
    else
      left.push_back(atom);
  }
  if (!factors.empty())
    return std::nullopt;
  return fromAtoms(left);
}

int64_t detail::leadingCoefficient(llvm::ArrayRef<Term> terms) {
  int64_t leading = 0;
  for (const Term &term : terms) {
    if (term.isConstant())
      continue;
    if (!term.monomial.hasDims())
      return term.coefficient;
    if (!leading)
      leading = term.coefficient;
  }
  return leading;
}

uint64_t detail::contentOf(llvm::ArrayRef<Term> terms) {
  uint64_t content = 0;
  for (const Term &term : terms)
    content = std::gcd(content, magnitude(term.coefficient));
  return content;
}

/// Sorts and adds up; unordered terms with repetitions come in.
static Expr collect(llvm::SmallVectorImpl<WideTerm> &wide) {
  llvm::sort(wide, [](const WideTerm &a, const WideTerm &b) {
    return compare(a.monomial, b.monomial) < 0;
  });
  Terms terms;
  for (size_t i = 0; i < wide.size();) {
    Expr monomial = wide[i].monomial;
    __int128 coefficient = 0;
    for (; i < wide.size() && wide[i].monomial == monomial; ++i)
      if (__builtin_add_overflow(coefficient, wide[i].coefficient, &coefficient))
        return Expr::invalid();
    if (!fits(coefficient) || !monomial.isValid())
      return Expr::invalid();
    if (coefficient)
      terms.push_back({monomial, static_cast<int64_t>(coefficient)});
  }
  return fromTerms(terms);
}

Expr Expr::operator+(Expr other) const {
  if (!isValid() || !other.isValid())
    return invalid();
  if (isConstant(0))
    return other;
  if (other.isConstant(0))
    return *this;
  Terms a = termsOf(*this), b = termsOf(other), terms;
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    int order = compare(a[i].monomial, b[j].monomial);
    if (order < 0) {
      terms.push_back(a[i++]);
    } else if (order > 0) {
      terms.push_back(b[j++]);
    } else {
      Term term = a[i];
      if (__builtin_add_overflow(a[i++].coefficient, b[j++].coefficient, &term.coefficient))
        return invalid();
      if (term.coefficient)
        terms.push_back(term);
    }
  }
  terms.append(a.begin() + i, a.end());
  terms.append(b.begin() + j, b.end());
  return fromTerms(terms);
}

Expr kiln::sym::sum(llvm::ArrayRef<Expr> exprs) {
  llvm::SmallVector<WideTerm, 16> wide;
  for (Expr expr : exprs) {
    if (!expr.isValid())
      return Expr::invalid();
    for (Term term : termsOf(expr))
      wide.push_back({term.monomial, term.coefficient});
  }
  return collect(wide);
}

static Expr multiplyMonomials(Expr a, Expr b) {
  if (a.isConstant() || b.isConstant())
    return a.isConstant() ? b : a;
  llvm::ArrayRef<Expr> x = atomsOf(a), y = atomsOf(b);
  if (x.size() + y.size() > maxDegree)
    return Expr::invalid();
  llvm::SmallVector<Expr, 8> atoms(x.size() + y.size());
  std::merge(x.begin(), x.end(), y.begin(), y.end(), atoms.begin(),
             [](Expr m, Expr n) { return compare(m, n) < 0; });
  return fromAtoms(atoms);
}

Expr Expr::operator*(Expr other) const {
  if (!isValid() || !other.isValid())
    return invalid();
  if (isConstant(1) || other.isConstant(0))
    return other;
  if (other.isConstant(1) || isConstant(0))
    return *this;
  Terms a = termsOf(*this), b = termsOf(other);
  if (a.size() * b.size() > maxProducts)
    return invalid();
  llvm::SmallVector<WideTerm, 16> wide;
  for (Term x : a)
    for (Term y : b)
      wide.push_back({multiplyMonomials(x.monomial, y.monomial),
                      static_cast<__int128>(x.coefficient) * y.coefficient});
  return collect(wide);
}

Expr Expr::operator-() const { return *this * -1; }

Expr Expr::operator-(Expr other) const {
  if (!isValid() || !other.isValid())
    return invalid();
  if (*this == other)
    return 0;
  // The difference is not *this + (-other): -INT64_MIN may be the coefficient that brings the sum
  // back into range.
  llvm::SmallVector<WideTerm, 16> wide;
  for (Term term : termsOf(*this))
    wide.push_back({term.monomial, term.coefficient});
  for (Term term : termsOf(other))
    wide.push_back({term.monomial, -static_cast<__int128>(term.coefficient)});
  return collect(wide);
}

Quotient detail::dividePolynomial(Expr expr, Expr divisor) {
  Quotient result{0, expr};
  if (!expr.isValid() || !divisor.isValid() || divisor.isConstant(0))
    return result;
  Terms of = termsOf(divisor);
  // The term of highest degree leads: subtracting its multiples then only adds terms of lower
  // degree.
  const Term &lead = *llvm::max_element(of, [](const Term &a, const Term &b) {
    return atomsOf(a.monomial).size() < atomsOf(b.monomial).size();
  });
  constexpr unsigned maxSteps = 64;
  for (unsigned step = 0; step < maxSteps; ++step) {
    llvm::SmallVector<Expr, 8> parts;
    for (Term term : termsOf(result.remainder)) {
      if (lead.coefficient == -1 && term.coefficient == INT64_MIN)
        continue;
      int64_t coefficient = term.coefficient / lead.coefficient;
      std::optional<Expr> monomial = divideMonomial(term.monomial, lead.monomial);
      if (!coefficient || !monomial)
        continue;
      parts.push_back(fromTerm({*monomial, coefficient}));
      if (of.size() > 1)
        break; // the others may be changed by this step
    }
    if (parts.empty())
      break;
    Expr part = sum(parts), left = result.remainder - part * divisor;
    if (!left.isValid())
      break;
    result = {result.quotient + part, left};
  }
  return result;
}

std::optional<Expr> detail::divideExactly(Expr expr, Expr divisor) {
  Quotient result = dividePolynomial(expr, divisor);
  return result.remainder.isConstant(0) ? std::optional<Expr>(result.quotient) : std::nullopt;
}
