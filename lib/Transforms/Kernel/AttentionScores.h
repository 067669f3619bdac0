// Epilogues of products before a softmax, as an attention computes them.
#ifndef KILN_LIB_TRANSFORMS_KERNEL_ATTENTIONSCORES_H
#define KILN_LIB_TRANSFORMS_KERNEL_ATTENTIONSCORES_H

#include "kiln/Transforms/Kernel/RegionUtils.h"
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

  /// Makes an empty region the bias, or x as a number.
  void fillBias(mlir::OpBuilder &builder, const DimSubstitution &substitution,
                mlir::Region &bias) const;
  /// Makes an empty region f of a product and, if there is one, the bias.
  void fillScore(mlir::OpBuilder &builder, mlir::Region &score) const;

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
