// Lower bounds of expressions under assumptions: the engine behind Assumptions' queries.
#ifndef KILN_LIB_SYM_PROVER_H
#define KILN_LIB_SYM_PROVER_H

#include "Node.h"
#include "kiln/Sym/Assumptions.h"

namespace kiln::sym::detail {

/// Serves the questions of one query; keeps what it found. What is assumed about symbols includes
/// that the loops over the dims of `root` are not empty.
class Prover {
public:
  Prover(const llvm::DenseMap<Expr, Range> &ranges, const llvm::DenseMap<unsigned, Expr> &extents,
         Expr root);

  /// By interval arithmetic alone: quick, and blind to what terms have in common.
  Range interval(Expr expr);
  /// Greatest bound found; stops looking at `goal`.
  std::optional<int64_t> lower(Expr expr, std::optional<int64_t> goal = std::nullopt);
  Range range(Expr expr);
  bool isNonNegative(Expr expr) { return isAtLeast(expr, 0); }
  bool isAtLeast(Expr expr, int64_t bound);
  /// 1 for >= 0, -1 for <= 0, 0 when neither is proved.
  int signOf(Expr expr);
  std::optional<Expr> extentOf(Expr dim) const;

private:
  using Bound = std::optional<int64_t>;
  // Work limits: for one bound, and for all that a query asks for. What is not proved within them
  // is not proved. A step counts by the size of its polynomial.
  static constexpr unsigned maxProofDepth = 24, maxProofSteps = 400, maxQuerySteps = 20000;
  static constexpr size_t termsPerStep = 8;

  void assumeNotEmpty(Expr extent);
  Range leafRange(Expr leaf);
  Range computeInterval(Expr expr);
  Bound search(Expr expr, Bound goal);
  Bound shifted(Expr expr);
  /// Bounds of coefficient*atom + rest with the atom put away.
  std::optional<Bound> withoutQuotient(Expr atom, Expr coefficient, Expr rest, Bound goal);
  std::optional<Bound> withoutExtremum(Expr atom, Expr coefficient, Expr rest, Bound goal);
  std::optional<Bound> withoutLeaf(Expr atom, Expr coefficient, Expr rest, Bound goal);
  /// A bound of `expr` without dims.
  std::optional<Expr> boundWithoutDims(Expr expr, bool isUpper);
  std::optional<Expr> atomBoundWithoutDims(Expr atom, bool isUpper);

  const llvm::DenseMap<Expr, Range> &ranges;
  const llvm::DenseMap<unsigned, Expr> &extents;
  llvm::DenseMap<Expr, Range> tightened; // by loops that are not empty
  llvm::DenseMap<Expr, Range> intervals;
  llvm::DenseMap<std::pair<Expr, int64_t>, Bound> bounds; // by goal, INT64_MAX for none
  unsigned depth = 0, steps = 0, allSteps = 0;
};

} // namespace kiln::sym::detail

#endif // KILN_LIB_SYM_PROVER_H
