//===- WarpgroupTile.h - What becomes of a warp's sums ----------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPTILE_H
#define KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPTILE_H

#include "CUDA/Contract/ContractKernel.h"
#include "CUDA/Hopper/RowExchange.h"
#include "CUDA/Hopper/TileScheduler.h"

namespace kiln::cuda {

/// The function of a kernel.contract whose tiles warpgroups have. A warp writes 16 rows of all of a
/// tile's columns at a time, of which its lanes have the sums as tensor cores leave them
/// (WarpgroupProduct.h), as runs of 16 bytes (RowExchange.h). The epilogue runs where the sums are,
/// or, if it reads what has rows and columns, on the runs.
class WarpgroupTile : protected ContractKernel {
protected:
  WarpgroupTile(DeviceFrame &frame, kernel::ContractOp op, const WarpgroupPlan &plan)
      : ContractKernel(frame, op), plan(plan) {}

  static constexpr int64_t warps = warpgroupSize / warpSize;

  /// Decides how sums are written. All threads of the block come here.
  void makeExchange();
  /// Finds this thread's place again. Values that are computed of its number would otherwise be in
  /// registers while it multiplies.
  void locate();
  /// Runs the epilogue on the sums of 16 rows of the tile, from `firstRow` on, and writes what it
  /// gives.
  void writeRows(const ScheduledTile &tile, sym::Expr firstRow, mlir::ValueRange sums);
  /// Whether something is computed of the sums' values in f16.
  bool roundsSums();

  WarpgroupPlan plan;
  /// The number of this warp among those that multiply.
  sym::Expr warp = 0, lane = 0;
  /// Nothing: neighbours are written as tensor cores leave them.
  std::optional<RowExchange> exchange;

private:
  void storeRuns(sym::Expr firstM, sym::Expr firstN, mlir::ValueRange sums);
  void evaluateInPlace(sym::Expr firstM, sym::Expr firstN,
                       llvm::SmallVector<mlir::Value> (&sums)[2]);

  int64_t run = 0;     // columns that a lane writes together
  bool onRuns = false; // the epilogue is evaluated
  /// Where this lane's sums are.
  sym::Expr line = 0, pair = 0;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPTILE_H
