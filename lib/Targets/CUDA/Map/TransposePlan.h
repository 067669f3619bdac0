//===- TransposePlan.h - Maps that read across their result -----*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_MAP_TRANSPOSEPLAN_H
#define KILN_LIB_TARGETS_CUDA_MAP_TRANSPOSEPLAN_H

#include "CUDA/Map/MapDims.h"

namespace kiln::cuda {

/// How a map without reductions is run some of whose reads have other neighbours in memory than its
/// result: a block brings a tile of what they read through shared memory. The result has its
/// neighbours along the last loop of the map, the *written* one; those reads, which are *staged*,
/// along another one, the *read* one.
struct TransposePlan {
  /// nullopt: there is no such read, or too little to gain.
  static std::optional<TransposePlan> choose(kernel::MapOp map, const MapDims &dims);
  /// The plan with this schedule; nullopt: it fits no such read.
  static std::optional<TransposePlan> make(kernel::MapOp map, const MapDims &dims,
                                           TransposedMapScheduleAttr schedule);

  struct Read {
    mlir::Value value; // of a kernel.read
    int64_t bytes;     // of an element
    int64_t vector;    // neighbours that a thread reads at once
  };
  llvm::SmallVector<Read> staged;
  /// The others, as far as they follow from the dims alone.
  llvm::SmallVector<Read> direct;
  /// The map's loops, of which the read one has this number and the written one is the last.
  llvm::SmallVector<codegen::DimGroup> loops;
  unsigned along = 0;
  const codegen::DimGroup &readLoop() const { return loops[along]; }
  const codegen::DimGroup &writtenLoop() const { return loops.back(); }
  /// Elements of a tile along either loop.
  int64_t readSide = 0, writtenSide = 0;
  int64_t threads = 0;
  /// Neighbours that a thread writes at once, and how many lanes of a warp write side by side.
  int64_t vector = 1, lanesAlong = 1;

  TransposedMapScheduleAttr schedule(mlir::MLIRContext *context) const;
  /// How many tiles there are along each loop, of one element but for the two.
  llvm::SmallVector<sym::Expr> tiles() const;

private:
  static std::optional<TransposePlan> find(kernel::MapOp map, const MapDims &dims);
  void findReads(kernel::MapOp map);
  void findVectors(kernel::MapOp map);
  void joinLoops();
  void chooseTile(const sym::Assumptions &assumptions);
  void chooseThreads();
  void findLanes();
  int64_t widestBytes() const; // of an element
  /// The size of all tiles in shared memory.
  int64_t sharedBytes() const;

  int64_t resultBytes = 1; // of the widest element
};

mlir::FailureOr<KernelPlan> planTransposedMap(kernel::FuncOp func, const MapDims &dims,
                                              TransposedMapScheduleAttr schedule,
                                              llvm::StringRef reason);
/// Writes the body of such a map, which has been planned.
void emitTransposedMap(DeviceFrame &frame, kernel::MapOp map);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_MAP_TRANSPOSEPLAN_H
