// Convolutions as their lowerings see them.
#ifndef KILN_LIB_LOWERING_NN_CONV_H
#define KILN_LIB_LOWERING_NN_CONV_H

#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

/// Spatial lists have an entry for each spatial dim.
struct Conv {
  mlir::Value x, weight, bias; // x is [N, C, spatial…]
  llvm::SmallVector<int64_t> stride, dilation;
  Exprs padding, output; // padding in front; output sizes
  int64_t groups = 1;
  bool transposed = false;

  size_t spatial() const { return stride.size(); }
  /// Weights are [out, in / groups, …]; transposed, [in, out / groups, …].
  Expr channelsPerGroup() const {
    return transposed ? shapeOf(weight)[0].floorDiv(groups) : shapeOf(weight)[1];
  }
  Expr outputsPerGroup() const {
    return transposed ? shapeOf(weight)[1] : shapeOf(weight)[0].floorDiv(groups);
  }
  Expr kernel(size_t i) const { return shapeOf(weight)[2 + i]; }
};

Element addBias(BodyBuilder &body, const Conv &conv, Element sum, Expr channel);

/// [N, spatial…, C] seen as [N, C, spatial…].
mlir::Value channelsFirst(Call &call, mlir::Value result);

/// A transposed convolution with a stride, as products with those positions of the kernel alone that
/// meet an input. Null if there are too many kinds of output positions, or positions of the kernel
/// that are not known.
mlir::Value transposedByPhase(Call &call, const Conv &conv);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_NN_CONV_H
