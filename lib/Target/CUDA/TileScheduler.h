//===- TileScheduler.h - Which steps of which tiles a block has -*- C++ -*-===//
#ifndef KILN_LIB_TARGET_CUDA_TILESCHEDULER_H
#define KILN_LIB_TARGET_CUDA_TILESCHEDULER_H

#include "WarpgroupPlan.h"

namespace kiln::cuda {

/// Where a tile is, and the turn (StageRing.h) of the first step that its block does of it.
struct ScheduledTile {
  sym::Expr part, batch, firstM, firstN;
  mlir::Value turn;
};

/// The walk of a product's blocks through its tiles: as many blocks as the GPU has multiprocessors
/// have all of them. All roles of a block walk in the same way.
class TileScheduler {
public:
  TileScheduler(DeviceFrame &frame, const ContractDims &dims, const WarpgroupPlan &plan);

  /// Steps of `WarpgroupPlan::blockK` of a tile.
  sym::Expr steps() const { return numSteps; }

  /// Goes through this block's tiles, of every `stride` of them the one with number `first`. `body`
  /// is also told how many have been before. Gives the number of turns.
  mlir::Value forEach(mlir::Value first, int64_t stride,
                      llvm::function_ref<void(const ScheduledTile &tile, mlir::Value before)> body);

private:
  ScheduledTile locate(sym::Expr tile, mlir::Value turn);

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  const ContractDims &dims;
  WarpgroupPlan plan;
  sym::Expr numSteps, blocksM, blocksN;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGET_CUDA_TILESCHEDULER_H
