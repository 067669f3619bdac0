// What the epilogue of a product makes of it before a softmax, as an attention computes it.
#ifndef KILN_LIB_TRANSFORMS_KERNEL_ATTENTIONSCORES_H
#define KILN_LIB_TRANSFORMS_KERNEL_ATTENTIONSCORES_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

namespace kiln::kernel {

/// The one value that a region yields.
inline mlir::Value getYielded(mlir::Region &region) {
  return region.front().getTerminator()->getOperand(0);
}

/// Puts constants where an epilogue reads tensors that hold nothing else, and decides what these
/// decide.
void foldConstants(mlir::RewriterBase &rewriter, mlir::Region &epilogue);

/// An epilogue as f(scale * sum) + bias, where f is mostly the number itself, or as f(scale * sum,
/// x), where x is computed as a bias is.
class AttentionScores {
public:
  /// Nullopt for any other function of the sum. `canCompute`: f may be more than the number itself.
  static std::optional<AttentionScores> match(mlir::Region &epilogue, bool canCompute);

  double scale = 1;
  bool hasBias = false;
  /// The result of f, and x; null where f is the number itself, or takes no x.
  mlir::Value function, other;

  /// Lets a clone of the epilogue yield the bias: what the sum, or f, is of no longer matters.
  void leaveOut(mlir::OpBuilder &builder, mlir::IRMapping &mapping) const;
  /// `x`, of a clone of the epilogue, as a number.
  mlir::Value createBias(mlir::OpBuilder &builder, mlir::Value x) const;
  /// Makes an empty region f of a product and, if there is one, the bias.
  void fill(mlir::OpBuilder &builder, mlir::Region &score) const;

private:
  explicit AttentionScores(mlir::Region &epilogue);
  bool dependsOnSum(mlir::Value value) const { return dependents.contains(value); }
  mlir::Value getAddedTo(mlir::Operation *op) const;
  mlir::Value getScaled(mlir::Operation *op);
  bool isLinear(mlir::Value value);
  bool isFunction(mlir::Value value);

  mlir::Value sum, product; // scale * sum
  llvm::DenseSet<mlir::Value> dependents;
};

} // namespace kiln::kernel

#endif // KILN_LIB_TRANSFORMS_KERNEL_ATTENTIONSCORES_H
