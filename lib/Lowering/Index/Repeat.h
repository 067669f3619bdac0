// Results of a size that data gives: elements that are repeated, or left out.
#ifndef KILN_LIB_LOWERING_INDEX_REPEAT_H
#define KILN_LIB_LOWERING_INDEX_REPEAT_H

#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

/// How often element number `element` stands in the result: an i64, below zero as zero, or an i1.
/// Only where `inside` holds is there such an element; memory must not be read elsewhere.
using CountBody = llvm::function_ref<Element(BodyBuilder &, Expr element, Element inside)>;

/// Elements 0 <= i < total, counted chunk by chunk.
struct Counts {
  Expr total, chunk, chunks;
  mlir::Value ofChunks; // [chunks] of i64; null where there is one chunk
  mlir::Value sum;      // 0-d
};
Counts countElements(Call &call, Expr total, CountBody count);

/// The numbers of the elements that `counts` counted with the same body, each as often as it says,
/// in order. What is past the sum of all counts in a longer result is arbitrary.
mlir::Value repeatElements(Call &call, const Counts &counts, Expr size, CountBody count);

/// The same for a result whose size is the sum: where `size` has no value yet, this gives it one.
mlir::Value repeatElements(Call &call, Expr total, Expr size, CountBody count);

/// The row-major numbers of the elements of `tensor` that are not zero.
mlir::Value nonzeroPlaces(Call &call, mlir::Value tensor, Expr size);
/// Their coordinates, a vector for each dim.
llvm::SmallVector<mlir::Value> nonzeroCoordinates(Call &call, mlir::Value tensor, Expr size);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_INDEX_REPEAT_H
