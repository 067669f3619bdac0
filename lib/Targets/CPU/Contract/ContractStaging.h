// Copies of a contract's operands in the task's scratch memory, in the form the microkernel reads.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_CONTRACTSTAGING_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_CONTRACTSTAGING_H

#include "kiln/Targets/CPU/ContractLayout.h"

namespace kiln::cpu {

/// The part of a contract that one task computes, over the frame's variables.
struct ContractTask {
  /// Values of the batch dims.
  llvm::SmallVector<sym::Expr> batch;
  /// Values of the row axes outside the block axis.
  llvm::SmallVector<sym::Expr> outerRows;
  /// Units [firstUnit, endUnit) of the block axis, which are its steps [firstStep, endStep).
  sym::Expr firstUnit, endUnit, firstStep, endStep;
  /// Panels [firstPanel, endPanel).
  sym::Expr firstPanel, endPanel;
  /// The current block of the sum: steps of the outermost sum axis.
  sym::Expr firstSum = 0, numSums;

  void bindBatch(codegen::BodyEmitter &body) const {
    for (auto [i, value] : llvm::enumerate(batch))
      body.setDim(i, value);
  }
};

/// Copies what the task needs of the left operand to `base`, in the layout's arrangement; of a
/// depthwise convolution, what `vectors` vectors of columns of panel `panel` need.
void emitLhsStage(codegen::KernelFrame &frame, const ContractLayout &layout,
                  const ContractTask &task, mlir::Value base, sym::Expr panel = 0,
                  int64_t vectors = 0);

/// Copies `vectors` vectors of columns of panel `panel`, for the current block of the sum, to
/// `base`: element (k, column) at k * layout.panel() + column.
void emitRhsStage(codegen::KernelFrame &frame, const ContractLayout &layout,
                  const ContractTask &task, sym::Expr panel, int64_t vectors, mlir::Value base);

/// A right operand as a panel sees it: columns by sum.
struct PanelSource {
  /// Bound to everything but the column and the sum.
  codegen::BodyEmitter &body;
  llvm::function_ref<void(sym::Expr)> bindColumn, bindSum;
  /// The operand's memory runs along the sum, not along the columns.
  bool alongSum;
  sym::Expr columns; // how many there are: none past the last is read
  sym::Expr numSums;
  int64_t maxSums;
  /// The place in the sum of what `bindSum` numbers otherwise; null: the number. The sum's length
  /// is known then.
  llvm::function_ref<sym::Expr(sym::Expr)> placeOf = nullptr;
};

/// Evaluates columns [firstColumn, firstColumn + vectors * lanes) of `source` into `base`: element
/// (sum, column) at sum * width + column, as `type`. `convert` is applied to every value before.
/// Rows up to the next multiple of `lanes` may be written too.
void emitPanelStage(codegen::KernelFrame &frame, const PanelSource &source, sym::Expr firstColumn,
                    int64_t vectors, int64_t lanes, int64_t width, mlir::Type type,
                    mlir::Value base,
                    llvm::function_ref<mlir::Value(mlir::Value)> convert = nullptr);

/// Whether reads of `region` walk memory along `dim`, and none along `other`.
bool walksAlong(mlir::Region &region, unsigned dim, unsigned other);

/// `body(i)` for a loop variable i with begin <= i < end <= extent.
void emitRange(codegen::KernelFrame &frame, sym::Expr begin, sym::Expr end, sym::Expr extent,
               llvm::function_ref<void(sym::Expr)> body);

/// `body(first, mask)` for each vector of `lanes` elements of [0, end), end <= extent; `mask` is
/// null where all of them are inside.
void emitVectors(codegen::KernelFrame &frame, sym::Expr end, sym::Expr extent, int64_t lanes,
                 llvm::function_ref<void(sym::Expr, mlir::Value)> body);

/// The transpose of a square of vectors: element i of result j is element j of `rows[i]`.
llvm::SmallVector<mlir::Value> emitTranspose(codegen::KernelFrame &frame, mlir::ValueRange rows);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_CONTRACTSTAGING_H
