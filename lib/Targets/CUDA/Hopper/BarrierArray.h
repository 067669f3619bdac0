//===- BarrierArray.h - Barriers that threads wait at in phases -*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_HOPPER_BARRIERARRAY_H
#define KILN_LIB_TARGETS_CUDA_HOPPER_BARRIERARRAY_H

#include "kiln/Targets/CUDA/KernelEmitters.h"

namespace kiln::cuda {

/// On a wait for a phase that has been waited for.
constexpr llvm::StringLiteral askAgainAttrName = "cuda.ask_again";

/// Barriers in shared memory (mbarrier). A phase of one ends with so many arrivals, and with the
/// bytes that it has been told of. Phases are told apart by their parity: who waits knows that the
/// phase before has ended.
class BarrierArray {
public:
  /// Has the block's first thread make them; a barrier of all threads has to follow, of the cluster
  /// if they are shared: other blocks of it may arrive at them.
  BarrierArray(DeviceFrame &frame, int64_t count, int64_t arrivals, bool isShared = false);

  mlir::Value at(mlir::Value index);
  /// Until the phase of this parity (of an i64 the last bit) has ended. The phase before the first
  /// one has odd parity and has ended.
  void wait(mlir::Value index, mlir::Value parity);
  /// Again for a phase that the thread has waited for, and that cannot end before it goes on: no
  /// more than a branch that is not taken.
  void askAgain(mlir::Value index, mlir::Value parity);
  void arrive(mlir::Value index);
  /// The same barriers of the cluster's block of this rank (i32); and arrives at one of those. What
  /// the thread has written before is not for that block.
  mlir::Value of(mlir::Value rank);
  void arriveAt(mlir::Value others, mlir::Value index);

private:
  mlir::Value at(mlir::Value array, mlir::Value index);
  mlir::Value i32(int64_t value);
  mlir::Operation *emitWait(mlir::Value index, mlir::Value parity);

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Value barriers;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_HOPPER_BARRIERARRAY_H
