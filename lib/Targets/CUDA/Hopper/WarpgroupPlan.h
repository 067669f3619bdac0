//===- WarpgroupPlan.h - Products of warpgroups -----------------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPPLAN_H
#define KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPPLAN_H

#include "CUDA/Hopper/WarpgroupProduct.h"
#include "kiln/Targets/Candidates.h"

namespace kiln::cuda {

/// Shared memory of a block that alignment and barriers take.
inline constexpr int64_t overheadBytes = 2048;

/// An operand whose neighbours in memory are rows of a step, or steps of a row.
struct WarpgroupOperand {
  bool alongRows;
  /// The operand as a tensor map sees it; nullopt: threads bring it.
  std::optional<TensorView> view;
};

struct WarpgroupOperands {
  WarpgroupOperand lhs, rhs;
  /// Only a run shows how many rows or columns there are.
  bool areOpen;
  /// The epilogue reads an element beside each sum.
  bool readResidual;
  bool areFloat8;
  bool haveBoxes() const { return lhs.view || rhs.view; }
  bool haveThreads() const { return !lhs.view || !rhs.view; }
};

/// A schedule #cuda.wgmma or #cuda.tcgen05, and what follows from it. As many blocks as the GPU has multiprocessors
/// go through all tiles; those of a cluster through neighbouring ones together.
struct WarpgroupPlan {
  explicit WarpgroupPlan(WgmmaScheduleAttr schedule)
      : inTurns(schedule.getM() == wgmmaM), blockN(schedule.getN()), cluster(schedule.getCluster()),
        stages(schedule.getStages()), registers(schedule.getRegisters()),
        sharing(schedule.getSharing()), leftRows(blockM()) {}
  explicit WarpgroupPlan(Tcgen05ScheduleAttr schedule)
      : inTurns(true), blockN(schedule.getN()), inTensorMemory(true), stages(schedule.getStages()),
        registers(schedule.getRegisters()), leftRows(blockM()) {}
  /// One that is not a schedule yet.
  constexpr WarpgroupPlan(bool inTurns, int64_t blockN, bool inTensorMemory = false)
      : inTurns(inTurns), blockN(blockN), inTensorMemory(inTensorMemory), leftRows(blockM()) {}

  /// The warpgroups that multiply have tiles of their own, in turns; otherwise each has half of
  /// one.
  bool inTurns;
  int64_t blockN;
  /// Sums are in Blackwell's tensor memory, of all of its rows, and tiles are not divided.
  bool inTensorMemory = false;
  TileShape cluster = {};
  int64_t stages = 0;
  std::optional<WarpgroupRegisters> registers = std::nullopt;
  SharingCost sharing = {0, 0};
  /// Rows of the left operand that a place has room for. Tensor cores read a tile's rows; what is
  /// behind these gives sums that nobody writes.
  int64_t leftRows;
  /// Steps of a place: a line of them. Two bytes each, unless `fit` has seen others.
  int64_t blockK = lineBytes / 2;
  /// The plan for these dims: steps by their bytes, and without the rows behind the last one, for as
  /// many as a run is known to have.
  void fit(const ContractDims &dims, const WarpgroupOperands &operands);

  static constexpr int64_t consumers = WgmmaScheduleAttr::consumers;
  /// Warpgroups that have a tile together.
  constexpr int64_t sharers() const { return inTurns ? 1 : consumers; }
  /// Rows of a warpgroup.
  constexpr int64_t groupRows() const { return inTensorMemory ? tensorRows : wgmmaM; }
  constexpr int64_t blockM() const { return sharers() * groupRows(); }
  int64_t stageBytes() const { return (leftRows + blockN) * lineBytes; }
  /// Those that come in boxes.
  int64_t boxBytes(const WarpgroupOperands &operands) const {
    return ((operands.lhs.view ? leftRows : 0) + (operands.rhs.view ? blockN : 0)) * lineBytes;
  }
  /// Hopper's tensor cores add floats of eight bits with about 14 bits, which is less than f32 has:
  /// their sums of a step are added to those of the tile elsewhere, as DeepSeek-V3 does (arXiv
  /// 2412.19437, 3.3.2).
  bool addsSteps(const WarpgroupOperands &operands) const {
    return operands.areFloat8 && !inTensorMemory;
  }
  /// The part of those that a block copies itself.
  int64_t copiedBytes() const { return (leftRows / cluster.n + blockN / cluster.m) * lineBytes; }
  /// A tile's sums.
  int64_t partialBytes() const { return blockM() * blockN * 4; }
  /// Steps of a tile. Past the last part's there are zeros.
  sym::Expr steps(const ContractDims &dims) const { return dims.part.ceilDiv(blockK); }
  /// Tiles that a cluster has together count as one. What of them is outside of the product is
  /// copied as zeros, and not written.
  sym::Expr tilesM(const ContractDims &dims) const { return dims.m.ceilDiv(blockM() * cluster.m); }
  sym::Expr tilesN(const ContractDims &dims) const { return dims.n.ceilDiv(blockN * cluster.n); }
  sym::Expr tiles(const ContractDims &dims) const {
    return dims.numParts * dims.numBatch * tilesM(dims) * tilesN(dims);
  }
};

/// Nullopt: this product is not one of bf16, f16 or floats of eight bits summed in f32, or of signed
/// bytes summed in i32, out of neighbours that come 16 bytes at a time, or too small; `reason` says
/// which, of a product.
std::optional<WarpgroupOperands> findWarpgroupOperands(kernel::FuncOp func, const char *&reason);
inline std::optional<WarpgroupOperands> findWarpgroupOperands(kernel::FuncOp func) {
  const char *reason = nullptr;
  return findWarpgroupOperands(func, reason);
}

/// The GPU that variants for an architecture are planned for: the module's if it is one that runs
/// them.
TargetAttr getVariantTarget(kernel::FuncOp func, unsigned architecture = hopper);

/// The plan with this schedule; null: with the one that is best for these.
mlir::FailureOr<KernelPlan> planVariantWith(kernel::FuncOp func, const WarpgroupOperands &operands,
                                            WgmmaScheduleAttr given);
mlir::FailureOr<KernelPlan> planVariantWith(kernel::FuncOp func, const WarpgroupOperands &operands,
                                            Tcgen05ScheduleAttr given);
void addWarpgroupCandidates(kernel::FuncOp func, const WarpgroupOperands &operands,
                            WgmmaScheduleAttr base, Candidates &candidates);
/// Fails, with an error on the kernel, if the schedule is not one for these operands.
mlir::LogicalResult verifyPlan(kernel::FuncOp func, const WarpgroupPlan &plan,
                               const WarpgroupOperands &operands);

mlir::LogicalResult emitWarpgroupContract(DeviceFrame &frame, kernel::ContractOp contract);
mlir::LogicalResult emitTensorMemoryContract(DeviceFrame &frame, kernel::ContractOp contract);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPPLAN_H
