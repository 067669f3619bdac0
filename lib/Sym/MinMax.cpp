// Canonical min and max: flat, sorted, and without operands that differ from another by a constant.
#include "Node.h"

using namespace kiln::sym;
using namespace kiln::sym::detail;

/// x - y where that is a constant that fits.
static std::optional<int64_t> constantDifference(Expr x, Expr y) {
  Terms a = termsOf(x), b = termsOf(y);
  int64_t m = 0, n = 0, difference = 0;
  auto takeConstant = [](Terms &terms, int64_t &constant) {
    if (!terms.empty() && terms.front().isConstant()) {
      constant = terms.front().coefficient;
      terms.erase(terms.begin());
    }
  };
  takeConstant(a, m);
  takeConstant(b, n);
  bool isSame = llvm::equal(a, b, [](const Term &s, const Term &t) {
    return s.monomial == t.monomial && s.coefficient == t.coefficient;
  });
  if (!isSame || __builtin_sub_overflow(m, n, &difference))
    return std::nullopt;
  return difference;
}

static Expr extremum(Kind kind, Expr a, Expr b) {
  if (!a.isValid() || !b.isValid())
    return Expr::invalid();
  if (b.kind() == kind)
    std::swap(a, b);
  // An operand that is a min needs no comparison among its own operands.
  llvm::SmallVector<Expr, 8> operands;
  if (a.kind() == kind)
    operands.append(a.operands().begin(), a.operands().end());
  else
    operands.push_back(a);
  for (Expr x : b.kind() == kind ? b.operands() : llvm::ArrayRef<Expr>(b)) {
    bool isKnown = false;
    for (Expr &y : operands) {
      std::optional<int64_t> difference = constantDifference(x, y);
      if (!difference)
        continue;
      if (*difference != 0 && (*difference < 0) == (kind == Kind::Min))
        y = x;
      isKnown = true;
      break;
    }
    if (!isKnown)
      operands.push_back(x);
  }
  if (operands.size() == 1)
    return operands.front();
  if (operands.size() > maxOperands)
    return Expr::invalid();
  llvm::sort(operands, [](Expr x, Expr y) { return compare(x, y) < 0; });
  return intern(kind, 0, {}, operands);
}

Expr Expr::min(Expr a, Expr b) { return extremum(Kind::Min, a, b); }
Expr Expr::max(Expr a, Expr b) { return extremum(Kind::Max, a, b); }
