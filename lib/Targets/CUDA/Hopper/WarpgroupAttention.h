//===- WarpgroupAttention.h - Attention of warpgroups on Hopper -*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPATTENTION_H
#define KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPATTENTION_H

#include "CUDA/Hopper/WarpgroupProduct.h"

namespace kiln::cuda {

/// The operands' views: lines are queries or keys, of features.
struct WarpgroupAttentionOperands {
  TensorView q, k, v;
  mlir::Type type;
  int64_t depth, valueDepth;
};

/// A block has one warpgroup that copies and `consumers` that multiply, each `wgmmaM` queries by
/// `keys` keys at a time. As many blocks as the GPU has multiprocessors go through all tiles.
struct WarpgroupAttentionPlan {
  int64_t consumers, keys;

  int64_t queries() const { return consumers * wgmmaM; }
  int64_t threads() const { return (1 + consumers) * warpgroupSize; }
  /// Bytes of one head's features of so many queries or keys, in boxes of lines.
  static int64_t bytes(int64_t lines, int64_t features) {
    return lines * llvm::divideCeil(2 * features, lineBytes) * lineBytes;
  }
  /// A place has keys or values. There are as many as there is room for: a power of two.
  int64_t stageBytes(const WarpgroupAttentionOperands &operands) const {
    return std::max(bytes(keys, operands.depth), bytes(keys, operands.valueDepth));
  }
  int64_t stages(const WarpgroupAttentionOperands &operands) const;
};

/// Nullopt: this is not attention over bf16 or f16 out of memory that tensor maps describe, or has
/// too few queries, or a bias that takes long to compute.
std::optional<WarpgroupAttentionOperands> findWarpgroupAttention(kernel::FuncOp func);

/// A schedule for these: `tile = [64]`, `block = [queries, keys]`, `lanes` the steps of an
/// instruction.
KernelPlan planWarpgroupAttention(kernel::FuncOp func, const WarpgroupAttentionOperands &operands);
/// The plan that it says; nullopt: it is none for these operands.
std::optional<WarpgroupAttentionPlan>
readWarpgroupAttention(kernel::ScheduleAttr schedule, const WarpgroupAttentionOperands &operands);

mlir::LogicalResult emitWarpgroupAttention(DeviceFrame &frame, kernel::AttentionOp attention);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPATTENTION_H
