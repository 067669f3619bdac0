// Sorted dims: what sorting, order statistics and sets are written with.
#ifndef KILN_LIB_LOWERING_REDUCE_ORDER_H
#define KILN_LIB_LOWERING_REDUCE_ORDER_H

#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

/// A signed i64 with the order of `x`, for which NaN is the greatest and there is one zero.
Element orderedBits(Element x);

/// One dim of a tensor, which is seen as the last.
struct SortedDim {
  Exprs shape; // of the tensor
  int64_t dim;

  Exprs rows() const {
    Exprs rows = shape;
    rows.erase(rows.begin() + dim);
    return rows;
  }
  Expr length() const { return shape[dim]; }
  /// The index of a tensor of this shape where the rows' index and `at` are given.
  Indices index(llvm::ArrayRef<Expr> row, Index at) const {
    Indices result = indicesOf(row);
    result.insert(result.begin() + dim, at);
    return result;
  }
};

/// The positions along the dim that sorting puts at each place: [rows…, n]. Of these the first
/// `wanted` are read, or any. Null, with a reason, for what has no order.
mlir::Value sortedPositions(Call &call, mlir::Value self, const SortedDim &along, bool descending,
                            std::optional<Expr> wanted = std::nullopt);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_REDUCE_ORDER_H
