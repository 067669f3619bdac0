// A lower bound of a polynomial is found by putting its atoms away, one after the other. With
// P = C*a + R and the sign of C known, the atom is replaced by the end of its range that makes P
// smallest; that end may be a polynomial in what is left (extent - 1 for a dim). When the sign is
// not known both ends are tried: P is linear in the atom, so its least value is at one of them.
//
// A quotient F = N floordiv M lies between (N - M + 1)/M and N/M. Where M divides C the division
// cancels and x - m*(x floordiv m) comes out as [0, m - 1]; where it does not, M*P is bounded
// instead, and P >= ceil(bound/M) because P is an integer. Quotients are put away before the dims
// in them.
#include "Prover.h"
#include "Interval.h"
#include "llvm/ADT/ScopeExit.h"

using namespace kiln::sym;
using namespace kiln::sym::detail;

static bool reached(std::optional<int64_t> bound, std::optional<int64_t> goal) {
  return bound && goal && *bound >= *goal;
}

static std::optional<int64_t> greater(std::optional<int64_t> a, std::optional<int64_t> b) {
  return a && b ? std::max(*a, *b) : a ? a : b; // no bound is minus infinity
}

static std::optional<int64_t> lesser(std::optional<int64_t> a, std::optional<int64_t> b) {
  return a && b ? std::optional<int64_t>(std::min(*a, *b)) : std::nullopt;
}

static bool hasOnlySymbols(Expr expr) {
  return llvm::all_of(termsOf(expr), [](const Term &term) {
    return llvm::all_of(atomsOf(term.monomial),
                        [](Expr atom) { return atom.kind() == Kind::Symbol; });
  });
}

std::optional<int64_t> Prover::lower(Expr expr, std::optional<int64_t> goal) {
  if (!expr.isValid() || expr.isConstant())
    return expr.constant();
  Bound best = interval(expr).min;
  if (reached(best, goal) || depth >= maxProofDepth)
    return best;
  auto key = std::make_pair(expr, goal.value_or(INT64_MAX));
  if (auto it = bounds.find(key); it != bounds.end())
    return it->second;
  if (depth == 0)
    steps = 0;
  unsigned cost = 1 + termsOf(expr).size() / termsPerStep;
  steps += cost;
  allSteps += cost;
  if (steps > maxProofSteps || allSteps > maxQuerySteps)
    return best;
  bounds[key] = best;
  ++depth;
  // Symbols have no bounds in terms of others, so for them alone shifting is all there is to try
  // unless one has a maximum; with other atoms it is what is left to try.
  bool isOnlySymbols = hasOnlySymbols(expr);
  if (isOnlySymbols)
    best = greater(best, shifted(expr));
  if (!reached(best, goal))
    best = greater(best, search(expr, goal));
  if (!reached(best, goal) && !isOnlySymbols)
    best = greater(best, shifted(expr));
  --depth;
  return bounds[key] = best;
}

bool Prover::isAtLeast(Expr expr, int64_t bound) { return reached(lower(expr, bound), bound); }

Range Prover::range(Expr expr) {
  Range range = interval(expr);
  intersect(range, {lower(expr), {}});
  if (Bound negated = lower(-expr); negated && *negated != INT64_MIN)
    intersect(range, {{}, -*negated});
  return range;
}

int Prover::signOf(Expr expr) { return isNonNegative(expr) ? 1 : isNonNegative(-expr) ? -1 : 0; }

/// With every atom written as its least value plus something >= 0, a polynomial whose coefficients
/// are then all >= 0 is at least its constant. Finds s0*s1 >= s0 for s1 >= 1 without upper bounds.
std::optional<int64_t> Prover::shifted(Expr expr) {
  constexpr size_t maxShiftedTerms = 32, maxShiftedDegree = 4;
  Terms terms = termsOf(expr);
  if (terms.size() > maxShiftedTerms)
    return std::nullopt;
  llvm::SmallVector<Expr, 8> parts;
  for (Term term : terms) {
    llvm::ArrayRef<Expr> atoms = atomsOf(term.monomial);
    if (atoms.size() > maxShiftedDegree)
      return std::nullopt;
    Expr part = term.coefficient;
    for (Expr atom : atoms) {
      Bound min = interval(atom).min;
      if (!min)
        return std::nullopt;
      part = part * (atom + *min);
    }
    parts.push_back(part);
  }
  Expr moved = sum(parts);
  if (!moved.isValid())
    return std::nullopt;
  int64_t constant = 0;
  for (Term term : termsOf(moved)) {
    if (term.isConstant())
      constant = term.coefficient;
    else if (term.coefficient < 0)
      return std::nullopt;
  }
  return constant;
}

/// Quotients, min and max from the outside in, then dims from the last (whose extent may contain
/// earlier ones), then symbols.
static llvm::SmallVector<Expr, 8> atomsToPutAway(Expr expr) {
  llvm::SmallVector<Expr, 8> atoms;
  for (const Term &term : termsOf(expr))
    for (Expr atom : atomsOf(term.monomial))
      if (!llvm::is_contained(atoms, atom))
        atoms.push_back(atom);
  auto rank = [](Expr atom) {
    return atom.kind() == Kind::Symbol ? 2 : atom.kind() == Kind::Dim ? 1 : 0;
  };
  llvm::sort(atoms, [&](Expr a, Expr b) {
    if (rank(a) != rank(b))
      return rank(a) < rank(b);
    if (rank(a) == 0 && Node::of(a).depth != Node::of(b).depth)
      return Node::of(a).depth > Node::of(b).depth;
    return compare(a, b) > 0;
  });
  return atoms;
}

/// coefficient*atom + rest, where the atom may still be inside atoms of either; nullopt for powers.
static std::optional<Linear> splitAtom(Expr expr, Expr atom) {
  llvm::SmallVector<Expr, 8> coefficient, rest;
  for (Term term : termsOf(expr)) {
    std::optional<Expr> others = divideMonomial(term.monomial, atom);
    if (!others) {
      rest.push_back(fromTerm(term));
    } else {
      if (llvm::is_contained(atomsOf(*others), atom))
        return std::nullopt;
      coefficient.push_back(fromTerm({*others, term.coefficient}));
    }
  }
  return Linear{sum(coefficient), sum(rest)};
}

std::optional<int64_t> Prover::search(Expr expr, Bound goal) {
  for (Expr atom : atomsToPutAway(expr)) {
    std::optional<Linear> linear = splitAtom(expr, atom);
    if (!linear)
      continue;
    auto [coefficient, rest] = *linear;
    std::optional<Bound> found;
    if (atom.kind() == Kind::FloorDiv)
      found = withoutQuotient(atom, coefficient, rest, goal);
    else if (atom.kind() == Kind::Min || atom.kind() == Kind::Max)
      found = withoutExtremum(atom, coefficient, rest, goal);
    else
      found = withoutLeaf(atom, coefficient, rest, goal);
    if (found)
      return *found;
  }
  return std::nullopt;
}

std::optional<std::optional<int64_t>> Prover::withoutQuotient(Expr atom, Expr coefficient,
                                                              Expr rest, Bound goal) {
  Expr numerator = atom.operands()[0], divisor = atom.operands()[1];
  if (!isAtLeast(divisor, 1))
    return std::nullopt;
  int sign = signOf(coefficient);
  if (!sign)
    return std::nullopt;
  // divisor * atom, from below or above
  Expr scaled = sign > 0 ? numerator - divisor + 1 : numerator;

  Bound best;
  std::optional<int64_t> m = divisor.constant();
  if (std::optional<Expr> factor = divideExactly(coefficient, divisor)) {
    best = lower(rest + *factor * scaled, goal);
  } else if (m) {
    Bound scaledGoal;
    int64_t product = 0;
    if (goal && !__builtin_mul_overflow(*goal - (*goal != INT64_MIN), *m, &product) &&
        product != INT64_MAX)
      scaledGoal = product + 1; // ceil(x/m) >= goal
    if (Bound bound = lower(*m * rest + coefficient * scaled, scaledGoal))
      best = floorDivide(*bound, *m) + (*bound % *m != 0);
  } else if (goal) {
    Expr slack = divisor * (rest - *goal) + coefficient * scaled + divisor - 1;
    if (isNonNegative(slack))
      best = goal;
  }
  if (reached(best, goal))
    return best;

  Range range = interval(atom);
  if (Bound end = sign > 0 ? range.min : range.max)
    best = greater(best, lower(rest + coefficient * *end, goal));
  if (!reached(best, goal) && atom.hasDims())
    if (std::optional<Expr> end = atomBoundWithoutDims(atom, /*isUpper=*/sign < 0))
      best = greater(best, lower(rest + coefficient * *end, goal));
  return best;
}

std::optional<std::optional<int64_t>> Prover::withoutExtremum(Expr atom, Expr coefficient,
                                                              Expr rest, Bound goal) {
  // c*min(x, y) is c*x or c*y. For c <= 0 it is the greater of them, so either one is a bound; in
  // general the lesser is.
  int sign = signOf(coefficient);
  bool anyIsBound = atom.kind() == Kind::Min ? sign < 0 : sign > 0;
  Bound best;
  for (auto [i, operand] : llvm::enumerate(atom.operands())) {
    Bound bound = lower(rest + coefficient * operand, goal);
    best = i == 0 ? bound : anyIsBound ? greater(best, bound) : lesser(best, bound);
    if (anyIsBound ? reached(best, goal) : !best.has_value())
      break;
  }
  return best;
}

std::optional<std::optional<int64_t>> Prover::withoutLeaf(Expr atom, Expr coefficient, Expr rest,
                                                          Bound goal) {
  Range range = interval(atom);
  std::optional<Expr> extent = atom.kind() == Kind::Dim ? extentOf(atom) : std::nullopt;
  // A constant end is taken from the range; a symbolic one may be better or worse.
  auto least = [&]() -> Bound {
    return range.min ? lower(rest + coefficient * *range.min, goal) : std::nullopt;
  };
  auto greatest = [&]() -> Bound {
    Bound best = extent ? lower(rest + coefficient * (*extent - 1), goal) : std::nullopt;
    if (!reached(best, goal) && range.max && !(extent && extent->isConstant(*range.max + 1)))
      best = greater(best, lower(rest + coefficient * *range.max, goal));
    return best;
  };
  if (!range.min && !range.max && !extent)
    return std::nullopt;
  switch (signOf(coefficient)) {
  case 1:
    return range.min ? std::optional<Bound>(least()) : std::nullopt;
  case -1:
    return range.max || extent ? std::optional<Bound>(greatest()) : std::nullopt;
  default:
    if (!range.min || (!range.max && !extent))
      return std::nullopt;
    Bound bound = least();
    return bound ? lesser(bound, greatest()) : bound;
  }
}

std::optional<Expr> Prover::atomBoundWithoutDims(Expr atom, bool isUpper) {
  switch (atom.kind()) {
  case Kind::Dim: {
    if (isUpper)
      if (std::optional<Expr> extent = extentOf(atom))
        return boundWithoutDims(*extent - 1, isUpper);
    Range range = interval(atom);
    Bound end = isUpper ? range.max : range.min;
    return end ? std::optional<Expr>(*end) : std::nullopt;
  }
  case Kind::FloorDiv: {
    Expr divisor = atom.operands()[1];
    if (divisor.hasDims() || !isAtLeast(divisor, 1))
      return std::nullopt;
    std::optional<Expr> numerator = boundWithoutDims(atom.operands()[0], isUpper);
    return numerator ? std::optional<Expr>(numerator->floorDiv(divisor)) : std::nullopt;
  }
  default: { // min and max are monotone
    std::optional<Expr> result;
    for (Expr operand : atom.operands()) {
      std::optional<Expr> bound = boundWithoutDims(operand, isUpper);
      if (!bound)
        return std::nullopt;
      result = !result                    ? bound
               : atom.kind() == Kind::Min ? Expr::min(*result, *bound)
                                          : Expr::max(*result, *bound);
    }
    return result;
  }
  }
}

std::optional<Expr> Prover::boundWithoutDims(Expr expr, bool isUpper) {
  constexpr unsigned maxAtoms = 16;
  if (depth >= maxProofDepth || ++steps > maxProofSteps)
    return std::nullopt;
  ++depth;
  llvm::scope_exit leave([&] { --depth; });
  for (unsigned i = 0; i < maxAtoms && expr.isValid(); ++i) {
    if (!expr.hasDims())
      return expr;
    llvm::SmallVector<Expr, 8> atoms = atomsToPutAway(expr);
    Expr atom = *llvm::find_if(atoms, [](Expr atom) { return atom.hasDims(); });
    std::optional<Linear> linear = splitAtom(expr, atom);
    int sign = linear ? signOf(linear->coefficient) : 0;
    if (!sign)
      return std::nullopt;
    std::optional<Expr> bound = atomBoundWithoutDims(atom, isUpper == (sign > 0));
    if (!bound)
      return std::nullopt;
    expr = linear->rest + linear->coefficient * *bound;
  }
  return std::nullopt;
}
