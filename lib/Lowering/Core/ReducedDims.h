// Which dims of a tensor a reduction runs over, and the index maps that follow from it.
#ifndef KILN_LIB_LOWERING_CORE_REDUCEDDIMS_H
#define KILN_LIB_LOWERING_CORE_REDUCEDDIMS_H

#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

struct ReducedDims {
  Exprs shape;                     // of the tensor
  llvm::SmallVector<int64_t> dims; // those that are reduced, sorted
  Exprs extents;                   // their sizes

  ReducedDims(mlir::Value tensor, llvm::ArrayRef<int64_t> dims)
      : shape(shapeOf(tensor)), dims(dims) {
    for (int64_t dim : dims)
      extents.push_back(shape[dim]);
  }

  bool contains(int64_t dim) const { return llvm::is_contained(dims, dim); }
  /// How many elements are reduced to one.
  Expr count() const { return sym::product(extents); }

  /// The result's sizes; with `keepdim` reduced dims stay with size 1.
  Exprs resultShape(bool keepdim) const {
    Exprs result;
    for (auto [i, size] : llvm::enumerate(shape))
      if (!contains(i))
        result.push_back(size);
      else if (keepdim)
        result.push_back(1);
    return result;
  }

  /// The tensor's index inside a reduction over `extents` in a map over the result.
  Exprs indexFromResult(const BodyBuilder &inner, bool keepdim) const {
    Exprs index;
    unsigned outer = 0, reduced = inner.numDims() - dims.size();
    for (size_t i = 0; i < shape.size(); ++i) {
      bool isReduced = contains(i);
      index.push_back(inner.dim(isReduced ? reduced++ : outer));
      outer += !isReduced || keepdim;
    }
    return index;
  }

  /// The tensor's index inside a reduction over `extents` in a map over the tensor's own shape.
  Exprs indexFromTensor(const BodyBuilder &inner) const {
    Exprs index;
    unsigned reduced = inner.numDims() - dims.size();
    for (size_t i = 0; i < shape.size(); ++i)
      index.push_back(inner.dim(contains(i) ? reduced++ : i));
    return index;
  }
};

/// A number of elements as a float.
inline Element countAs(BodyBuilder &body, Expr count, mlir::Type type) {
  if (auto constant = count.constant())
    return body.constant(type, *constant);
  return convert(body.index(count), type);
}

/// The type that ATen accumulates in: f64 for f32, f32 for narrower types, integers as they are.
inline mlir::Type accumulatorType(mlir::Type type) {
  mlir::MLIRContext *context = type.getContext();
  if (isComplex(type))
    return mlir::ComplexType::get(mlir::Float64Type::get(context));
  if (!isFloat(type))
    return type;
  return type.getIntOrFloatBitWidth() < 32 ? mlir::Type(mlir::Float32Type::get(context))
                                           : mlir::Type(mlir::Float64Type::get(context));
}

/// The sum of what `read` gives, in the accumulator of `type`. ATen adds f32 up in a tree, whose
/// rounding hardly grows with the number of terms; one after the other only f64 is as exact.
inline Element preciseSum(BodyBuilder &body, llvm::ArrayRef<Expr> extents, mlir::Type type,
                          BodyBuilder::Body read) {
  mlir::Type wide = accumulatorType(type);
  return body.sum(extents, wide, [&](BodyBuilder &inner) { return convert(read(inner), wide); });
}

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_CORE_REDUCEDDIMS_H
