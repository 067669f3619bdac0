//===- LayoutSources.h - Inputs on whose strides a tensor's depend -*- C++ -*-===//
#ifndef KILN_LIB_TRANSFORMS_TORCH_LAYOUTSOURCES_H
#define KILN_LIB_TRANSFORMS_TORCH_LAYOUTSOURCES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallBitVector.h"

namespace kiln::torch {

/// For the tensors of a graph, the arguments whose strides theirs follow. Operators keep the order
/// in which an operand lies in memory, except some that always return row-major results.
class LayoutSources {
public:
  explicit LayoutSources(mlir::func::FuncOp function);

  /// A bit for each argument of the function.
  llvm::SmallBitVector of(mlir::Value value) const { return sources.lookup(value); }

private:
  llvm::SmallBitVector none() const { return llvm::SmallBitVector(numArguments); }
  void add(mlir::Operation *op);

  unsigned numArguments;
  llvm::DenseMap<mlir::Value, llvm::SmallBitVector> sources;
};

/// Marks arguments with `torch.check_strides`.
void checkStrides(mlir::func::FuncOp function, const llvm::SmallBitVector &arguments);

/// The callers' arguments that arguments with `torch.check_strides` of nested graphs come from get
/// it, too.
void checkStridesOfCallers(mlir::ModuleOp module);

} // namespace kiln::torch

#endif // KILN_LIB_TRANSFORMS_TORCH_LAYOUTSOURCES_H
