//===- OperandLoad.h - Operands that threads bring --------------*- C++ -*-===//
//
// What a product reads of an operand at one step, a *part*, brought to shared memory by threads:
// copied asynchronously where the operand is memory as it is, or seen through a window with zeros
// around; otherwise evaluated into registers and stored from there. What is evaluated of small integers can be copied as it
// lies in memory first, each thread's own chunks to places of its own.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_LIB_TARGETS_CUDA_CONTRACT_OPERANDLOAD_H
#define KILN_LIB_TARGETS_CUDA_CONTRACT_OPERANDLOAD_H

#include "CUDA/Contract/AsyncCopy.h"
#include "CUDA/Contract/WidenedOperand.h"
#include <functional>
#include <memory>

namespace kiln::cuda {

/// An operand's part in shared memory.
struct OperandPart {
  Side side;
  int64_t rows, steps;
  /// The address of element (row, k) of the part at `memory`.
  std::function<mlir::Value(mlir::Value memory, sym::Expr row, sym::Expr k)> address;
  /// The 16 bytes of elements that are neighbours in the operand's memory stay that, at a multiple
  /// of 16 bytes.
  bool keepsNeighbours;
  /// Elements are copied one by one where neighbours do not stay together, if they have as many
  /// bytes as a copy may have.
  bool copiesElements = false;
};

class OperandLoad {
public:
  /// For `threads` threads, of which this is number `thread`.
  OperandLoad(DeviceFrame &frame, kernel::ContractOp op, const ContractDims &dims, OperandPart part,
              sym::Expr thread, int64_t threads);

  /// Whether parts are copied: then `copy` brings one, otherwise `evaluate` and `store` do.
  bool isCopied() const { return source.has_value(); }
  /// The chunks of neighbours that this thread has of a part.
  size_t numChunks() const { return chunks.size(); }

  /// Runs `body`, in which parts are of this batch and begin at `firstRow`.
  void emitTile(sym::Expr batch, sym::Expr firstRow, llvm::function_ref<void()> body);

  /// Starts the copies of the part that begins at step `firstK`; steps from `endK` on are zeros.
  void copy(sym::Expr firstK, sym::Expr endK, mlir::Value memory);
  /// This thread's chunks `first` and on of the part that begins at step `firstK`: how many values
  /// these are `store` knows.
  llvm::SmallVector<mlir::Value> evaluate(sym::Expr firstK, sym::Expr endK, size_t first,
                                          size_t count);
  void store(mlir::ValueRange values, mlir::Value memory, size_t first, size_t count);

  /// Bytes of shared memory for what a part is evaluated of; 0: that cannot be copied.
  int64_t sourceBytes() const;
  /// Starts the copies of that for the part that begins at step `firstK`.
  void copySource(sym::Expr firstK, mlir::Value memory);
  /// The values that `evaluate` gives for all chunks, from there: this thread's copies have been waited for.
  llvm::SmallVector<mlir::Value> evaluateSource(sym::Expr firstK, mlir::Value memory);

private:
  /// Neighbours that are loaded together, all inside or none: the first one's row and step in the
  /// part.
  struct Chunk {
    sym::Expr row = 0, k = 0;
    std::unique_ptr<codegen::BodyEmitter> body;
    /// A row of the tile, its number in each of the loops over rows, and whether there is one
    /// (null: always).
    sym::Expr atRow = 0;
    llvm::SmallVector<sym::Expr> rowValues;
    mlir::Value isRow;
  };

  llvm::ArrayRef<codegen::DimGroup> alongGroups() const {
    return alongK ? dims.kGroups : rowGroups;
  }
  int64_t findVector();
  /// The loops' values for element `i` of the neighbours that begin at `linear`.
  llvm::SmallVector<sym::Expr> split(llvm::ArrayRef<codegen::DimGroup> groups, sym::Expr linear,
                                     sym::Expr extent, bool isAlong, int64_t i);
  void bind(codegen::BodyEmitter *body, llvm::ArrayRef<codegen::DimGroup> groups,
            llvm::ArrayRef<sym::Expr> values);
  sym::Expr clamp(sym::Expr value, sym::Expr limit);
  void bindRows(Chunk &chunk, sym::Expr firstRow);
  llvm::SmallVector<mlir::Value> evaluateChunk(Chunk &chunk, sym::Expr atK, mlir::Value inside);
  /// Lets `position` be that of a chunk's first element.
  void bindChunk(const Chunk &chunk, sym::Expr atK);
  /// The place of chunk number `i` in memory for what parts are evaluated of.
  mlir::Value getSource(mlir::Value memory, int64_t i);
  mlir::Value widen(Chunk &chunk, sym::Expr atK, sym::Expr endK);
  /// No part has steps behind the last.
  bool hasWholeParts() const { return frame.assumptions.isMultipleOf(dims.k, part.steps); }
  bool storesVectors() const { return vector > 1 && part.keepsNeighbours; }

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Region &region;
  const ContractDims &dims;
  OperandPart part;
  bool alongK; // neighbouring threads have neighbours along k
  llvm::ArrayRef<codegen::DimGroup> rowGroups;
  sym::Expr numRows;
  sym::Expr thread;
  int64_t threads;
  int64_t vector;
  std::optional<CopySource> source;
  std::optional<WidenedOperand> widened;
  /// True if elements that are not there are evaluated at another place and not used, which takes
  /// no branches.
  bool evaluatesAll;
  llvm::SmallVector<Chunk> chunks;
  llvm::SmallVector<sym::Expr> position;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_CONTRACT_OPERANDLOAD_H
