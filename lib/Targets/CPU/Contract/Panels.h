// Right operands of contracts in panels: where their elements lie, and the maps that put them there.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_PANELS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_PANELS_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

namespace kiln::cpu {

/// The dims that are a contract's columns: its n dims, or the last batch dim.
struct PanelColumns {
  explicit PanelColumns(kernel::ContractOp contract);
  bool isBatch;
  unsigned first;
  llvm::ArrayRef<sym::Expr> extents;
};

/// The layout of a contract's right operand.
struct Panels {
  explicit Panels(kernel::ContractOp contract);

  mutable kernel::ContractOp contract; // a handle whose accessors are not const
  /// The k dims in the order in which the left operand lies in memory, outermost first.
  llvm::SmallVector<unsigned> order;
  int64_t panel = 0;

  llvm::SmallVector<sym::Expr> getSums() const;
  unsigned firstK() const { return contract.getExtents().size() - contract.getNumK(); }

  /// Clones the right operand at a place and a step of the sum, and says what its values became.
  using CloneAt = llvm::function_ref<mlir::IRMapping(sym::Expr step)>;
  /// One element, given the number of its row; columns past the last one read zeros, where the mask
  /// (null: there are none) is false.
  using Compute = llvm::function_ref<mlir::Value(CloneAt, sym::Expr row, mlir::Value mask)>;

  /// A tensor [batch…, panels, rows, panel] in front of the contract.
  mlir::Value create(mlir::Type element, sym::Expr rows, mlir::RewriterBase &rewriter,
                     Compute compute) const;

  /// The place in such a tensor of `row`, over the dims of a contract of `numDims` dims whose batch,
  /// m and n dims are this one's.
  sym::IndexMap getPlace(unsigned numDims, sym::Expr row) const;

private:
  llvm::SmallVector<sym::Expr> getBatch() const;
};

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_PANELS_H
