//===- Functionalizer.h - Tensors of one graph become values ----*- C++ -*-===//
#ifndef KILN_LIB_TRANSFORMS_TORCH_FUNCTIONALIZER_H
#define KILN_LIB_TRANSFORMS_TORCH_FUNCTIONALIZER_H

#include "LayoutSources.h"
#include "SmallSizes.h"
#include "TensorAliases.h"
#include "kiln/Dialect/Torch/OpSchema.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::torch {

/// The argument is written although its schema does not say so: batch and instance norm in training
/// mode write running statistics.
bool updatesStatistics(CallOp call, const SchemaArgument &argument);

/// The work of the pass torch-functionalize in one function.
class Functionalizer {
public:
  Functionalizer(mlir::func::FuncOp function, SmallSizes &smallSizes)
      : function(function), smallSizes(smallSizes), layouts(function) {}

  mlir::LogicalResult run();

private:
  // Functionalize.cpp
  mlir::LogicalResult visit(mlir::Operation *op);
  void visitSharing(CallOp call);
  mlir::LogicalResult visitInPlace(CallOp call, llvm::StringRef functional);
  mlir::LogicalResult returnMutated(mlir::Operation *terminator);
  /// Refuses to write a constant that overlaps one that is read.
  mlir::LogicalResult checkOverlaps();

  /// Every operand is replaced by what its memory holds now.
  mlir::LogicalResult refreshOperands(mlir::Operation *op);
  /// The operand as the program has it, before it was refreshed.
  mlir::Value getOriginal(mlir::Operation *op, unsigned operand) {
    return original.at({op, operand});
  }
  Alias &getAlias(CallOp call, unsigned operand) { return aliases.get(getOriginal(call, operand)); }
  mlir::InFlightDiagnostic refuse(CallOp call, const llvm::Twine &reason);

  // FunctionalizeUpdates.cpp
  mlir::LogicalResult checkDistinct(CallOp call, mlir::ArrayRef<int64_t> operands);
  mlir::LogicalResult visitUpdate(CallOp call, const OpSchema &schema);
  mlir::LogicalResult visitResizingOut(CallOp call, mlir::ArrayRef<int64_t> updates,
                                       mlir::ArrayRef<std::optional<unsigned>> returned);
  mlir::LogicalResult visitCustom(CallOp call);
  llvm::SmallVector<int64_t> guessWrites(CallOp call);
  bool isWrittenByCustom(const Alias &alias, bool returnsNothing);
  CallOp emitWithUpdates(CallOp call, mlir::ArrayRef<int64_t> updates);
  mlir::LogicalResult writeUpdates(CallOp call, CallOp result, mlir::ArrayRef<int64_t> updates);

  mlir::func::FuncOp function;
  SmallSizes &smallSizes;
  /// The layouts of the program as it was, by its values.
  LayoutSources layouts;
  mlir::ImplicitLocOpBuilder builder{function.getLoc(), function.getContext()};
  TensorAliases aliases{builder};
  mlir::DenseMap<std::pair<mlir::Operation *, unsigned>, mlir::Value> original;
  /// Calls that others stand for; nothing uses them at the end.
  mlir::SmallVector<mlir::Operation *> replaced;
};

} // namespace kiln::torch

#endif // KILN_LIB_TRANSFORMS_TORCH_FUNCTIONALIZER_H
