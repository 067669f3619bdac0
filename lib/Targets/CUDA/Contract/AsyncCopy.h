//===- AsyncCopy.h - From the GPU's memory to a block's ---------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_CONTRACT_ASYNCCOPY_H
#define KILN_LIB_TARGETS_CUDA_CONTRACT_ASYNCCOPY_H

#include "kiln/Targets/CUDA/KernelEmitters.h"

namespace kiln::cuda {

/// Memory that a region's elements are, and where they are zero instead.
struct CopySource {
  kernel::ReadOp read;
  kernel::InsideOp window; // or null: all are there
};

/// The read that the region's result is, as it is or with zeros outside of a window; or null.
kernel::ReadOp getCopied(mlir::Region &region);

/// The memory that the region reads, if it does nothing else and elements that follow each other
/// along dim `along` are neighbours in memory, each `vector` of them from a multiple of that on,
/// and all of these are there or none.
std::optional<CopySource> findCopySource(mlir::Region &region, sym::Expr along, int64_t vector);

/// The constant part of a sum: an instruction adds that to an address by itself.
int64_t getConstantTerm(sym::Expr expr);

/// Starts a copy of `bytes` bytes (cp.async), 4, 8 or 16, from the element at `position`, the values
/// of the region's dims, to shared memory; writes zeros where `inside` (null: always) does not hold,
/// and then `position` may be anywhere.
void emitCopy(DeviceFrame &frame, CopySource source, mlir::Type type,
              llvm::ArrayRef<sym::Expr> position, mlir::Value target, mlir::Value inside,
              int64_t bytes = vectorBytes);

/// The same from `offset` elements of `type` behind `base`.
void emitCopy(DeviceFrame &frame, mlir::Value base, mlir::Type type, sym::Expr offset,
              mlir::Value target, mlir::Value inside, int64_t bytes);

/// Ends a group of copies.
void emitCopiesEnd(DeviceFrame &frame);
/// Waits until at most `groups` of this thread's groups are under way.
void emitCopiesWait(DeviceFrame &frame, int64_t groups);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_CONTRACT_ASYNCCOPY_H
