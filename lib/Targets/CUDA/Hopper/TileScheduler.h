//===- TileScheduler.h - Which steps of which tiles a block has -*- C++ -*-===//
//
// As many blocks as the GPU has multiprocessors go through the tiles of a product. Where these are
// no multiple of the blocks, the last ones are not done as wholes (stream-K, after Osama et al.
// 2023): the steps of the tiles that fill the last two rounds, or of all of them where there are
// fewer than blocks, are divided evenly. A block has a run of neighbouring steps, and goes through
// it tile by tile from its end: what it has of a tile whose last steps are another block's it does
// first, and leaves the sums for that block (PartialSums.h). It finishes the tiles whose last steps
// are its own, and waits only for blocks of lower numbers, for what they have done before they wait
// for anybody. Then come its whole tiles.
//
// The blocks of a cluster walk together: what is said of a block here is said of a cluster, whose
// blocks have neighbouring tiles, some of which may be outside, and the same steps of them.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_LIB_TARGETS_CUDA_HOPPER_TILESCHEDULER_H
#define KILN_LIB_TARGETS_CUDA_HOPPER_TILESCHEDULER_H

#include "CUDA/Hopper/WarpgroupPlan.h"

namespace kiln::cuda {

/// How the steps of some tiles are divided among blocks.
struct StreamDivision {
  /// None of them: 0. Those are the first of all tiles.
  sym::Expr tiles;
  /// The blocks that have a part of them: the first of all.
  sym::Expr blocks;
  /// Steps that a block has of them, at most; and what the division costs besides, in steps of one
  /// block that it takes the time of.
  sym::Expr stepsOfBlock, cost;
  /// Rounds of whole tiles, one for each block, behind which fewer than blocks are left.
  sym::Expr rounds;

  StreamDivision() : tiles(0), blocks(1), stepsOfBlock(0), cost(0), rounds(0) {}
};

/// For `blocks` blocks; with 0 tiles unless it pays. `name` is given what is used several times
/// or divides, and what is known of it besides.
StreamDivision divideSteps(const WarpgroupPlan &plan, sym::Expr tiles, sym::Expr steps,
                           sym::Expr blocks,
                           llvm::function_ref<sym::Expr(sym::Expr expr, sym::Range known)> name);
/// Whether steps are ever divided: these are enough.
bool mayDivideSteps(const WarpgroupPlan &plan, sym::Expr steps,
                    const sym::Assumptions &assumptions);
/// How many blocks have something to do, at most.
sym::Expr countUsefulBlocks(const WarpgroupPlan &plan, sym::Expr tiles, sym::Expr steps,
                            const sym::Assumptions &assumptions);

/// Steps `first` to `end` - 1 of a tile, and the turn (StageRing.h) of the first of them.
struct ScheduledTile {
  sym::Expr part = 0, batch = 0, firstM = 0, firstN = 0;
  mlir::Value first, end, turn;
  /// The number of the tile's first step among those that are divided.
  mlir::Value stream;
};

/// The walk of a product's blocks through its tiles. All roles of a block walk in the same way.
class TileScheduler {
public:
  /// `rank`: the block's in its cluster.
  TileScheduler(DeviceFrame &frame, const ContractDims &dims, const WarpgroupPlan &plan,
                sym::Expr rank);

  /// Parts of `blockK` steps of a tile.
  sym::Expr steps() const { return numSteps; }
  /// Whether tiles may be a part of one.
  bool dividesSteps() const { return divides; }

  /// Goes through this block's tiles, of every `stride` of them the one with number `first`. `body`
  /// is also told how many have been before. Gives the number of turns.
  mlir::Value forEach(mlir::Value first, int64_t stride,
                      llvm::function_ref<void(const ScheduledTile &tile, mlir::Value before)> body);

  /// The block that begins with the first step of a tile, seen by `body`, with which this one does
  /// not. That one and those up to this one have the steps before.
  mlir::Value firstBlock(const ScheduledTile &tile);

private:
  /// A variable of this value, of which this is known besides.
  sym::Expr named(sym::Expr expr, sym::Range known);
  ScheduledTile locate(sym::Expr tile);

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  const ContractDims &dims;
  WarpgroupPlan plan;
  sym::Expr rank, numSteps, tilesM, tilesN;
  bool divides;
  /// While a walk is written: steps that are divided, and the blocks that have them.
  sym::Expr units = 0, workers = 0;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_HOPPER_TILESCHEDULER_H
