//===- ThreadTeam.h - Threads that share a reduction ------------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_MAP_THREADTEAM_H
#define KILN_LIB_TARGETS_CUDA_MAP_THREADTEAM_H

#include "kiln/Codegen/BodyEmitter.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace kiln::cuda {

/// A warp, or all warps of a block. Values go from lane to lane by shuffles, and from warp to warp
/// through shared memory. Or one thread of every `across`, so that neighbouring threads are of
/// neighbouring teams; their values go through shared memory.
class ThreadTeam : public codegen::Team {
public:
  /// `size` is 1, the warp's, or the block's number of threads, or such that a block has `across`
  /// teams.
  ThreadTeam(DeviceFrame &frame, int64_t size, int64_t across = 1);

  /// This team's number in the block.
  mlir::Value number;

  llvm::SmallVector<mlir::Value> combineAll(codegen::KernelFrame &, mlir::ValueRange mine,
                                            Combine combine) override;

  /// The same of every `lanes` (a power of two) neighbouring lanes.
  llvm::SmallVector<mlir::Value> combineLanes(mlir::ValueRange mine, int64_t lanes,
                                              Combine combine);
  /// `value` of the lane whose number differs in the bit `distance`.
  mlir::Value shuffle(mlir::Value value, int64_t distance);
  /// `value` of lane number `lane`, an i32.
  mlir::Value shuffleFrom(mlir::Value value, mlir::Value lane);

private:
  mlir::Value shuffle(mlir::Value value, mlir::Value from, mlir::NVVM::ShflKind kind);
  llvm::SmallVector<mlir::Value> combineAcross(mlir::ValueRange mine, Combine combine);
  /// Shared memory for `count` values of each of these types.
  llvm::SmallVector<mlir::Value> allocate(mlir::ValueRange values, int64_t count);

  DeviceFrame &frame;
  int64_t across;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_MAP_THREADTEAM_H
