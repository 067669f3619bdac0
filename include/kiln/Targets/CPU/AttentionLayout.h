// How kernel.attention is run on a CPU, shared by its planner and its emitter.
//
// Queries lie along the lanes: everything is computed transposed,
//
//   Sᵀ = K · (scale * Qᵀ)          keys x queries
//   Oᵀ = Vᵀ · exp(Sᵀ - max)        values x queries
//
// so that both products are the contract's microkernel with K and V read where they are (their
// elements are what is broadcast), Sᵀ is produced in just the form in which the second product
// reads it, and maximum and sum over the keys are plain vector operations without a step across
// lanes. Only the queries on the way in and the result on the way out are turned, in squares of
// lanes x lanes.
//
// A task owns one batch element and a few panels of queries. It goes through the keys in blocks
// (online softmax: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao
// et al., "FlashAttention", 2022): with the block's maximum the running maximum grows, what has
// been summed up is scaled down by exp(old - new), and the block is added. A block of scores, 128
// keys of one panel, stays in level 1 cache.
//
// Few queries, as of a step of decoding, would leave most lanes of a panel empty. They are taken
// one at a time instead, a task each, with features along the lanes: keys and values are evaluated
// where they are used, once for each query, and read from memory about once.
#ifndef KILN_TARGETS_CPU_ATTENTIONLAYOUT_H
#define KILN_TARGETS_CPU_ATTENTIONLAYOUT_H

#include "kiln/Codegen/LoopNest.h"
#include "kiln/Targets/CPU/CPUDialect.h"

namespace kiln::cpu {

/// Keys or values: a matrix of keys by features.
struct AttentionOperand {
  /// Read in place: the offset of element (key, feature) is base + key * keyStride + feature *
  /// featureStride. Otherwise a block of keys at a time is evaluated into scratch.
  bool direct = false;
  mlir::Value tensor;
  sym::Expr base; // in the batch dims
  sym::Expr keyStride, featureStride;
};

struct AttentionLayout {
  kernel::AttentionOp op;
  mlir::Type elementType, sumType;
  AttentionOperand keys, values;
  sym::Expr m, n;
  int64_t depth, valueDepth; // d and dv, which are static

  // The schedule.
  /// A task is one query; a panel is too.
  bool byQuery = false;
  int64_t lanes = 1, vectors = 1;
  int64_t keyTile = 1;   // rows of the microkernel of the first product
  int64_t valueTile = 1; // the most rows of that of the second
  int64_t blockKeys = 1; // a multiple of keyTile
  int64_t blockPanels = 1;
  int64_t sumsAtOnce = 1, keysAtOnce = 1; // by query

  static mlir::FailureOr<AttentionLayout> get(kernel::AttentionOp op,
                                              const codegen::CPUInfo &target);

  int64_t panel() const { return byQuery ? 1 : lanes * vectors; }
  sym::Expr numPanels() const { return m.ceilDiv(panel()); }
  sym::Expr numRowBlocks() const { return numPanels().ceilDiv(blockPanels); }
  sym::Expr numKeyBlocks() const { return n.ceilDiv(blockKeys); }
  /// Batch dims, then row blocks.
  llvm::SmallVector<sym::Expr> gridSizes() const;
  /// Rows of the values' product, rounded up so that they can be turned in squares.
  int64_t paddedValueDepth() const;
  int64_t paddedDepth() const;

  // Scratch memory of a task, in bytes.
  int64_t queryBytes() const;  // of one panel
  int64_t stateBytes() const;  // of one panel: maximum, sum
  int64_t outputBytes() const; // of one panel
  int64_t scoreBytes() const;
  int64_t keyBytes() const;
  int64_t valueBytes() const;
  int64_t queryOffset() const { return 0; }
  int64_t stateOffset() const { return blockPanels * queryBytes(); }
  int64_t outputOffset() const { return stateOffset() + blockPanels * stateBytes(); }
  int64_t scoreOffset() const { return outputOffset() + blockPanels * outputBytes(); }
  int64_t keyOffset() const { return scoreOffset() + scoreBytes(); }
  int64_t valueOffset() const { return keyOffset() + keyBytes(); }
  int64_t scratchBytes() const { return valueOffset() + valueBytes(); }
};

mlir::FailureOr<AttentionLayout> getScheduledLayout(kernel::AttentionOp op, AttentionAttr schedule,
                                                    const codegen::CPUInfo &target);
mlir::FailureOr<AttentionLayout> getScheduledLayout(kernel::AttentionOp op,
                                                    AttentionByQueryAttr schedule,
                                                    const codegen::CPUInfo &target);
/// Either of them; an error if `schedule` is another.
mlir::FailureOr<AttentionLayout> getScheduledLayout(kernel::AttentionOp op,
                                                    kernel::ScheduleAttrInterface schedule,
                                                    const codegen::CPUInfo &target);

/// Stores the features [first, first + lanes) of a query's result, in the type of sums: those in
/// `mask`, if any.
void emitAttentionResult(codegen::KernelFrame &frame, codegen::BodyEmitter &values,
                         kernel::AttentionOp op, const AttentionLayout &layout,
                         llvm::ArrayRef<sym::Expr> batch, sym::Expr query, sym::Expr first,
                         mlir::Value mask, mlir::Value value);

/// Writes the function of an attention scheduled by query.
void emitAttentionQuery(codegen::KernelFrame &frame, kernel::AttentionOp op,
                        const AttentionLayout &layout);

} // namespace kiln::cpu

#endif // KILN_TARGETS_CPU_ATTENTIONLAYOUT_H
