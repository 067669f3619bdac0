//===- NonEmpty.h - Dims that must have elements ------------------*- C++ -*-===//
#ifndef KILN_LIB_LOWERING_CORE_NONEMPTY_H
#define KILN_LIB_LOWERING_CORE_NONEMPTY_H

#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

/// The dims of `x` from `first` on have elements, as ATen wants of all but the batch.
inline void requireElements(Call &call, mlir::Value x, size_t first, llvm::StringRef message) {
  Exprs shape = shapeOf(x);
  for (Expr size : llvm::ArrayRef(shape).drop_front(first))
    call.require(size - 1, message);
}

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_CORE_NONEMPTY_H
