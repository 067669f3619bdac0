// Facts about symbols and dims, and what follows from them.
//
// Symbols have inclusive integer ranges; dims run over 0 <= d < extent, where the extent is itself
// an expression (a loop over a dynamic size). Every query is sound and incomplete: "no" means "not
// proved". Proofs are interval arithmetic on the canonical polynomial after extents have been put
// in for dims, so 0 <= d2 < s0 proves (d1*s0 + d2) floordiv s0 == d1 for any s0 >= 1.
#ifndef KILN_SYM_ASSUMPTIONS_H
#define KILN_SYM_ASSUMPTIONS_H

#include "kiln/Sym/Expr.h"
#include "llvm/ADT/DenseMap.h"

namespace kiln::sym {

/// Inclusive; nullopt is unbounded.
struct Range {
  std::optional<int64_t> min, max;
};

class Assumptions {
public:
  void setRange(Expr leaf, Range range);
  /// 0 <= dim(index) < extent.
  void setExtent(unsigned dim, Expr extent);

  Range rangeOf(Expr expr) const;
  bool isNonNegative(Expr expr) const; // expr >= 0
  bool isPositive(Expr expr) const { return isNonNegative(expr - 1); }
  bool isLess(Expr a, Expr b) const { return isNonNegative(b - a - 1); }
  bool isLessOrEqual(Expr a, Expr b) const { return isNonNegative(b - a); }
  /// a == b, by simplifying or bounding the difference.
  bool isEqual(Expr a, Expr b) const;
  /// a == b, by bounds on a - b alone: a check of `simplify` that shares none of its rewrites.
  bool provesEqual(Expr a, Expr b) const;
  /// `divisor` divides `expr` exactly.
  bool isMultipleOf(Expr expr, Expr divisor) const;

  /// Rewrites that need ranges, applied bottom-up until nothing changes:
  ///   (q*m + r) floordiv m      -> q + r floordiv m;  r floordiv m -> 0 when 0 <= r < m
  ///   (g*a + r) floordiv (g*c)  -> a floordiv c                       when 0 <= r < g
  ///   (x floordiv a) floordiv b -> x floordiv (a*b)                   for a, b > 0
  ///   (s*t) floordiv t          -> s                                  for t > 0
  ///   (-x) floordiv t           -> -((x + t - 1) floordiv t)          for a symbolic t > 0
  ///   min/max                   -> the operand that is proved smaller/larger
  ///   a leaf with one value     -> the value, but a dim of extent 1 stays where it is all of
  ///   `expr`,
  ///                                so that an identity map stays one
  Expr simplify(Expr expr) const;

private:
  /// Answers under what is assumed now. Not for several threads at once; a copy starts without any.
  struct Answers {
    Answers() = default;
    Answers(const Answers &) {}
    Answers &operator=(const Answers &) {
      clear();
      return *this;
    }
    void clear();
    llvm::DenseMap<Expr, Expr> simplified;
    llvm::DenseMap<Expr, bool> nonNegative;
    unsigned numDims = 0; // one past the largest dim that any of them is about
  };
  void forget(Expr leaf);

  llvm::DenseMap<Expr, Range> ranges;
  llvm::DenseMap<unsigned, Expr> extents;
  mutable Answers answers;
};

} // namespace kiln::sym

#endif // KILN_SYM_ASSUMPTIONS_H
