//===- AsyncCopy.h - From the GPU's memory to a block's ---------*- C++ -*-===//
#ifndef KILN_LIB_TARGET_CUDA_ASYNCCOPY_H
#define KILN_LIB_TARGET_CUDA_ASYNCCOPY_H

#include "kiln/Target/CUDA/KernelEmitters.h"

namespace kiln::cuda {

/// The region's read, if that is all of it and elements that follow each other along dim `along`
/// are neighbours in memory, each `vector` of them from a multiple of that on. Null otherwise.
kernel::ReadOp findPlainRead(mlir::Region &region, sym::Expr along, int64_t vector);

/// Starts a copy of `vectorBytes` bytes (cp.async) from `offset` elements of the read's tensor on
/// to shared memory; writes zeros where `inside` (null: always) does not hold.
void emitCopy(DeviceFrame &frame, kernel::ReadOp read, mlir::Type type, sym::Expr offset,
              mlir::Value target, mlir::Value inside);

/// Ends a group of copies.
void emitCopiesEnd(DeviceFrame &frame);
/// Waits until at most `groups` of this thread's groups are under way.
void emitCopiesWait(DeviceFrame &frame, int64_t groups);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGET_CUDA_ASYNCCOPY_H
