// Quantized tensors are cut into blocks with a scale and a zero point each: a block may be a row
// (per token), a channel, a group of a row, or all of the tensor.
#ifndef KILN_LOWERING_BLOCKS_H
#define KILN_LOWERING_BLOCKS_H

#include "kiln/Dialect/Kernel/Builder/Float8.h"
#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

/// A type that a tensor is quantized to.
inline bool isQuantized(mlir::Type type) { return isInt(type) || isFloat8(type); }

/// The blocks that a tensor is cut into.
class Blocks {
public:
  /// `blocks` has the size of a block in each dim, which divides that of the tensor. Nullopt, with a
  /// reason, where that cannot be.
  static std::optional<Blocks> get(Call &call, mlir::Value tensor, llvm::ArrayRef<Expr> blocks);

  /// The number of blocks in each dim.
  llvm::ArrayRef<Expr> grid() const { return counts; }
  /// The block that the element at `index` is in.
  Exprs blockOf(llvm::ArrayRef<Expr> index) const;
  /// The sizes of a block in the dims in which it has more than one element.
  Exprs innerSizes() const;
  /// The element at `inner`, one index for each of innerSizes, of the block at `block`.
  Exprs elementOf(llvm::ArrayRef<Expr> block, llvm::ArrayRef<Expr> inner) const;

  /// A value for each block as a tensor of the grid's shape. Null, with a reason, where the numbers
  /// of elements differ.
  mlir::Value toGrid(Call &call, mlir::Value values) const;

private:
  Exprs sizes, counts;
};

/// An operator of PyTorch on elements of two tensors with dims: promoted, computed in opmath's type
/// and rounded.
Element promoted(Element a, Element b, llvm::function_ref<Element(Element, Element)> compute);
/// The same with a Python number, which takes the tensor's dtype.
Element promoted(Element a, double b, llvm::function_ref<Element(Element, Element)> compute);

/// The range of an integer type, or of the finite numbers of a float type.
double leastOf(mlir::Type type);
double largestOf(mlir::Type type);

/// A number that has been clamped to what a small integer type holds: through i32, which vectors
/// convert to at once. Other types are converted as always.
Element convertClamped(Element x, mlir::Type type);

inline Element add(Element a, Element b) { return a + b; }
inline Element subtract(Element a, Element b) { return a - b; }
inline Element multiply(Element a, Element b) { return a * b; }
inline Element divide(Element a, Element b) { return a / b; }

} // namespace kiln::lowering

#endif // KILN_LOWERING_BLOCKS_H
