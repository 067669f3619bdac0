// Integer meanings of the functions in torch.export's expressions.
#ifndef KILN_LIB_FRONTEND_SYMFUNCTIONS_H
#define KILN_LIB_FRONTEND_SYMFUNCTIONS_H

#include "kiln/Sym/Expr.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

namespace kiln::frontend {

/// numerator / denominator; the denominator is not the constant zero. A Python bool is 0 or 1.
struct Quotient {
  sym::Expr numerator = 0, denominator = 1;
  /// The program has it as a float, which may differ from the exact quotient in its last bit. That
  /// rounds to the same integer, as long as numerators stay below 2^53.
  bool isRounded = false;
  /// A float constant that stands for this quotient in products with small integers; see SymParser.
  bool isScale = false;
  /// 1 or -1 for a constant beyond all 64-bit integers, which serves as a bound and as nothing
  /// else.
  int infinite = 0;
  bool isInteger() const { return denominator.isConstant(1); }
};

/// Null, or why there is no result.
using Failure = const char *;

constexpr Failure tooWide = "an integer of more than 64 bits";

/// Applies a function by sympy's name, `FloorDiv` or `StrictLessThan`. `isNonNegative` is asked
/// where knowing a sign makes the result simpler.
Failure applyFunction(llvm::StringRef name, llvm::ArrayRef<Quotient> args,
                      llvm::function_ref<bool(Quotient)> isNonNegative, Quotient &result);
Failure add(Quotient a, Quotient b, Quotient &result);
Failure power(Quotient base, Quotient exponent, Quotient &result);
/// condition ? a : b
Failure select(Quotient condition, Quotient a, Quotient b, Quotient &result);

} // namespace kiln::frontend

#endif // KILN_LIB_FRONTEND_SYMFUNCTIONS_H
