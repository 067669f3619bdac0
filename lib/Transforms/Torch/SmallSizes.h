//===- SmallSizes.h - Sizes of one, for which copies are views --*- C++ -*-===//
// A matrix of one row is contiguous when it is transposed, and one of two rows is not: whether a
// call copies may be decided for sizes from two on alone. A size of one is taken from the program
// only where the difference shows.
#ifndef KILN_LIB_TRANSFORMS_TORCH_SMALLSIZES_H
#define KILN_LIB_TRANSFORMS_TORCH_SMALLSIZES_H

#include "ViewDecision.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallBitVector.h"

namespace kiln::torch {

class SmallSizes {
public:
  explicit SmallSizes(mlir::ModuleOp module);

  /// The ranges of all symbols, as the program has them.
  const sym::Assumptions &getRanges() const { return known; }

  /// `decideSharing` for all sizes if it says one thing; else for sizes from two on of the symbols
  /// in `fromTwo`, of which there are as few as decide.
  ViewDecision decide(CallOp call, llvm::SmallBitVector &fromTwo) const;

  /// Makes two the least size of these symbols in `sym.symbols`.
  void exclude(const llvm::SmallBitVector &chosen);

private:
  mlir::ModuleOp module;
  sym::Assumptions known;
  /// Symbols of inputs' sizes that may be one.
  llvm::SmallVector<std::pair<sym::Expr, sym::Range>> symbols;
};

} // namespace kiln::torch

#endif // KILN_LIB_TRANSFORMS_TORCH_SMALLSIZES_H
