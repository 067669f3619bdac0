// Reads the expressions that torch.export writes into integer expressions.
//
// Sizes are sympy's `srepr` text,
//
//   FloorDiv(Add(Mul(Integer(2), Symbol('s39', positive=True, integer=True)), Integer(3)),
//   Integer(4))
//
// and the keys of range_constraints are its `str` text, `2*s65 + 1`; one grammar reads both.
//
// kiln::sym has integers only, so a subexpression is carried as a quotient of two of its
// polynomials until a rounding function makes it an integer:
//
//   floor(x/128 + y/128)   (x + y) floordiv 128
//   TruncToInt(a / b)      max(a floordiv b, 0) + min(a ceildiv b, 0); a floordiv b where a/b >= 0
//   RoundToInt             half to even
//   a < b, a == b, and, …  0 or 1, from min and max
//   Where, Piecewise       c*a + (1 - c)*b
//
// Floats are read where they compute what exact arithmetic computes: short binary fractions, and a
// division whose result is rounded to an integer or compared with one next. A constant such as 0.2
// is read as 1/5, under the assumption that its factor is at most 65536, up to where that is the
// same. Not integer expressions, and refused: further arithmetic on a rounded float, square roots
// and other real functions, symbolic exponents and shift counts, infinities.
//
// A size of those kinds gets a symbol, which the program computes; see `define`. A guard of those
// kinds is read by FloatExpr.
//
// Guards are Python conditions on inputs, `L['x'].size()[0] != 1 and L['n'] <= 8`; what they become
// is an expression that is at least zero where the guard and what it was read under hold.
#ifndef KILN_FRONTEND_SYMEXPR_H
#define KILN_FRONTEND_SYMEXPR_H

#include "kiln/Sym/Assumptions.h"
#include "kiln/Sym/Expr.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

namespace kiln::frontend {

/// A property of an input in a guard: `L['x'][0].size()[1]` has the path x, 0. OfBase is any
/// property of the tensor that the input is a view of.
struct InputProperty {
  enum Kind { Value, Size, Stride, StorageOffset, OfBase };
  llvm::SmallVector<llvm::StringRef, 2> path;
  Kind kind = Value;
  unsigned dim = 0;
};
using InputLookup = llvm::function_ref<std::optional<sym::Expr>(const InputProperty &)>;

class SymExprReader {
public:
  static constexpr size_t maxTextLength = 1 << 15;

  /// The expression, or what is wrong with the text. Equal texts are read once. Only with `assume`
  /// may it be one that is right under assumptions.
  llvm::Expected<sym::Expr> read(llvm::StringRef text, bool assume = true);

  /// An expression that is at least zero where the Python condition holds.
  llvm::Expected<sym::Expr> readCondition(llvm::StringRef text, InputLookup inputs);

  /// From now on `text`, also inside of other texts, is read as `expr`: a value that is not an
  /// integer expression but that the program computes and then uses as a size.
  void define(llvm::StringRef text, sym::Expr expr) { cache[text] = defined[text] = expr; }

  /// The assumptions under which `read` read its texts: each is at least zero.
  const llvm::SetVector<sym::Expr> &assumptions() const { return assumed; }

  /// All symbols read so far with the ranges that their assumptions give (positive=True: min 1).
  const llvm::MapVector<sym::Expr, sym::Range> &symbols() const { return ranges; }

private:
  llvm::StringMap<sym::Expr> cache, defined;
  llvm::MapVector<sym::Expr, sym::Range> ranges;
  llvm::SetVector<sym::Expr> assumed;
};

} // namespace kiln::frontend

#endif // KILN_FRONTEND_SYMEXPR_H
