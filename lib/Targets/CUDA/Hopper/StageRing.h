//===- StageRing.h - Places that threads fill and empty in turns -*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_HOPPER_STAGERING_H
#define KILN_LIB_TARGETS_CUDA_HOPPER_STAGERING_H

#include "CUDA/Hopper/BarrierArray.h"

namespace kiln::cuda {

/// Places of shared memory that copies fill and consumers empty, one after the other and round
/// again. Turn t is that of place t modulo `stages`. Each place has two barriers: one for the bytes
/// and threads that fill it, one for the consumers that are done with it. What a barrier's phase
/// is, a turn says: nothing is carried along.
///
/// The blocks of a cluster may copy to each other's places, all of them in the same turns. A place
/// is empty when the consumers of all blocks have let go of it, each of them in all blocks.
class StageRing {
public:
  /// The bytes that hardware copies to a place, and the arrivals, which fill it.
  struct Fill {
    int64_t bytes, arrivals;
  };

  /// Makes the barriers; all threads come here. `consumers`: how many arrivals of each of the
  /// `blocks` of the cluster empty a place.
  StageRing(DeviceFrame &frame, int64_t stages, int64_t stageBytes, Fill fill, int64_t consumers,
            int64_t blocks = 1);

  /// The number of the turn's place.
  mlir::Value place(mlir::Value turn);
  /// The address of a place's bytes.
  mlir::Value memory(mlir::Value place);

  /// The producers': waits until the place is empty; says that the bytes will come (or as many as
  /// it is given), which is an arrival, and gives the barrier to tell; and arrives.
  void waitEmpty(mlir::Value turn);
  mlir::Value expectBytes(mlir::Value turn, std::optional<int64_t> bytes = std::nullopt);
  void arrive(mlir::Value turn);
  /// The consumers': waits until it is full; asks once more if it is, which it still is; and lets
  /// go of it, in another block of the cluster if `emptyIn` has given `others` for its rank.
  void waitFull(mlir::Value turn);
  void askIfFull(mlir::Value turn);
  void release(mlir::Value turn, mlir::Value others = {});
  mlir::Value emptyIn(mlir::Value rank) { return empty.of(rank); }
  /// The barrier that tells that the turn's place is empty, for products to arrive at.
  mlir::Value emptied(mlir::Value turn) { return empty.at(place(turn)); }

private:
  mlir::Value round(mlir::Value turn);

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  int64_t stages, stageBytes;
  Fill fill;
  mlir::Value bytes;
  BarrierArray full, empty;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_HOPPER_STAGERING_H
