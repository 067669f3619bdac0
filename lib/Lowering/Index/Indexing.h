//===- Indexing.h - Indices that data gives -----------------------*- C++ -*-===//
#ifndef KILN_LIB_LOWERING_INDEX_INDEXING_H
#define KILN_LIB_LOWERING_INDEX_INDEXING_H

#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

inline bool isIndexType(mlir::Type type) { return isInt(type) && !type.isUnsignedInteger(64); }

/// A Python index: negative ones count from the end.
inline Element wrapIndex(BodyBuilder &body, Element index, Expr size) {
  index = convert(index, body.b().getI64Type());
  return select(index < index.constant(0), index + body.index(size), index);
}

/// The same of an index that is not checked: it is moved into the dim, as ATen does beside a mask.
inline Element clampIndex(BodyBuilder &body, Element index, Expr size) {
  index = convert(index, body.b().getI64Type());
  return wrapIndex(body, minimum(maximum(index, body.index(-size)), body.index(size - 1)), size);
}

/// The mask of such an index: of an empty tensor, nothing is there to be read or written.
inline Element isPlace(BodyBuilder &body, Element mask, llvm::ArrayRef<Expr> sizes) {
  Expr count = sym::product(sizes);
  if (count.isConstant() && !count.isConstant(0))
    return mask;
  return mask & body.inside({Expr(0)}, {count});
}

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_INDEX_INDEXING_H
