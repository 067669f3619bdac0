//===- PartialSums.h - Sums that blocks leave for others --------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_HOPPER_PARTIALSUMS_H
#define KILN_LIB_TARGETS_CUDA_HOPPER_PARTIALSUMS_H

#include "../../../../runtime/ir_interface.h"
#include "kiln/Codegen/RuntimeStruct.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"

namespace kiln::cuda {

/// Sums of blocks that have a part of a tile's steps, in the run's workspace, for the block that
/// has the last part, which adds them in the order of the blocks' numbers: the result is the same
/// in every run. A block leaves the sums of one tile at most.
///
/// A warp leaves what the same warp of another block adds, thread by thread, and raises a flag of
/// its own; who waits for that lowers it again, so that all flags are down when a kernel ends. A
/// warp waits for all blocks at the same time. A
/// block may wait only for blocks of lower numbers, for what they do before they wait: it goes on
/// however few blocks run at the same time, since these begin in the order of their numbers.
class PartialSums {
public:
  /// The workspace begins with the flags of this many blocks, one for each of eight warps.
  static constexpr int64_t maxBlocks = KILN_RT_WORKSPACE_BLOCKS,
                           flagBytes = int64_t{KILN_RT_WORKSPACE_FLAGS},
                           blockFlagBytes = flagBytes / maxBlocks;

  /// `threads` of a block have `sums` sums each, of f32 or i32, a multiple of 4. Blocks of clusters
  /// of `cluster` add what those of their rank have left. A thread has `registers`.
  PartialSums(DeviceFrame &frame, mlir::Type type, int64_t sums, int64_t threads, int64_t registers,
              int64_t cluster = 1);

  /// This is thread number `thread` of those, lane `lane` of warp `warp`.
  void begin(sym::Expr thread, sym::Expr warp, sym::Expr lane);
  void leave(mlir::ValueRange sums);
  /// `sums` with what blocks `first` to this one less 1 have left, one of each cluster.
  llvm::SmallVector<mlir::Value> add(mlir::Value first, mlir::ValueRange sums);

private:
  mlir::Value flag(mlir::Value block);
  /// The address of sums number `i` and on, of one block.
  mlir::Value address(mlir::Value block, int64_t i);
  void raise(mlir::Value flag);
  void wait(mlir::Value flag);
  void lower(mlir::Value flag);
  /// Sums number `first` and some that follow, with those of the block and of a few behind it, up to
  /// `last`.
  llvm::SmallVector<mlir::Value> addSome(mlir::Value block, mlir::Value last, int64_t first,
                                         mlir::ValueRange sums);
  void syncWarp();

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type type;
  int64_t numSums, numThreads, cluster;
  int64_t blocksAtOnce, atOnce; // blocks whose sums are read together, and how many of each
  mlir::Value workspace;
  mlir::Value block, thread, warp, lane, isFirstLane;
};

/// Attributes of an llvm.inline_asm that raises a flag, or waits for one, for the emulator.
constexpr llvm::StringLiteral raiseFlagAttrName = "cuda.raise_flag";
constexpr llvm::StringLiteral waitFlagAttrName = "cuda.wait_flag";

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_HOPPER_PARTIALSUMS_H
