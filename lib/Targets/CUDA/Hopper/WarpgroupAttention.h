//===- WarpgroupAttention.h - Attention of warpgroups on Hopper -*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPATTENTION_H
#define KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPATTENTION_H

#include "CUDA/Hopper/WarpgroupProduct.h"
#include "kiln/Targets/Candidates.h"

namespace kiln::cuda {

/// The operands' views: lines are queries or keys, of features.
struct WarpgroupAttentionOperands {
  TensorView q, k, v;
  mlir::Type type;
  int64_t depth, valueDepth;
};

/// A schedule #cuda.wgmma_attention, and what follows from it. A warpgroup that multiplies has
/// `wgmmaM` queries by `keys` keys at a time. As many blocks as the GPU has multiprocessors go
/// through all tiles.
struct WarpgroupAttentionPlan {
  int64_t consumers, keys;

  int64_t queries() const { return consumers * wgmmaM; }
  /// Bytes of one head's features of so many queries or keys, in boxes of lines.
  static int64_t bytes(int64_t lines, int64_t features) {
    return lines * llvm::divideCeil(2 * features, lineBytes) * lineBytes;
  }
  /// A place has keys or values.
  int64_t stageBytes(const WarpgroupAttentionOperands &operands) const {
    return std::max(bytes(keys, operands.depth), bytes(keys, operands.valueDepth));
  }
};

/// Nullopt: this is not attention over bf16 or f16 out of memory that tensor maps describe, or has
/// too few queries, or a bias that takes long to compute.
std::optional<WarpgroupAttentionOperands> findWarpgroupAttention(kernel::FuncOp func,
                                                                 const char *&reason);
inline std::optional<WarpgroupAttentionOperands> findWarpgroupAttention(kernel::FuncOp func) {
  const char *reason = nullptr;
  return findWarpgroupAttention(func, reason);
}

/// The plan with this schedule; null: with the one that is best for these.
mlir::FailureOr<KernelPlan> planVariantWith(kernel::FuncOp func,
                                            const WarpgroupAttentionOperands &operands,
                                            WgmmaAttentionScheduleAttr given);
void addWarpgroupCandidates(kernel::FuncOp func, const WarpgroupAttentionOperands &operands,
                            WgmmaAttentionScheduleAttr base, Candidates &candidates);
/// Places that there is room for: a power of two.
int64_t countStages(const WarpgroupAttentionPlan &plan, const WarpgroupAttentionOperands &operands,
                    TargetAttr target);

mlir::LogicalResult emitWarpgroupAttention(DeviceFrame &frame, kernel::AttentionOp attention);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPATTENTION_H
