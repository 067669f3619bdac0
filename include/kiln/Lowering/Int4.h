// The layouts in which PyTorch packs weights of four bits.
#ifndef KILN_LOWERING_INT4_H
#define KILN_LOWERING_INT4_H

#include "kiln/Sym/Expr.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace kiln::lowering {

/// Attribute of a module: the vectors ("avx512", "avx2" or "none") of the CPU that has packed the
/// program's int4 weights, which decide their layout; "avx512" if there is none.
inline constexpr llvm::StringLiteral int4LayoutAttrName = "torch.int4_layout";

/// A part of a packed weight: columns from `first` on in blocks of `block`, each a matrix of bytes
/// [sums, block / 2].
struct Int4Part {
  int64_t first, columns, block, sums;
  bool halves; // a byte has columns n and n + block / 2, not n and n + 1
  int64_t step() const { return halves ? block / 2 : 1; }
  sym::Expr begin() const { return {first * sums / 2}; }
  sym::Expr size() const { return {columns * sums / 2}; }

  /// The place of column n for step k: the byte, and which half of it.
  std::pair<sym::Expr, sym::Expr> locate(sym::Expr n, sym::Expr k) const;
  /// The step and the lower column that byte `at` is of.
  std::pair<sym::Expr, sym::Expr> columnOf(sym::Expr at) const;
};

/// The parts of a weight [columns, sums], a multiple of 16 and one of 2: blocks as wide as the packing
/// CPU's vectors ("avx512", "avx2", "none") allow, then a narrower one.
llvm::SmallVector<Int4Part, 2> getInt4Parts(int64_t columns, int64_t sums, llvm::StringRef vectors);

} // namespace kiln::lowering

#endif // KILN_LOWERING_INT4_H
