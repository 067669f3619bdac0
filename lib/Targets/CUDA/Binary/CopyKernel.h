//===- CopyKernel.h - Copies between strides on a GPU -----------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_BINARY_COPYKERNEL_H
#define KILN_LIB_TARGETS_CUDA_BINARY_COPYKERNEL_H

#include "mlir/IR/BuiltinOps.h"

namespace kiln::cuda {

/// Adds the kernel that the runtime copies tensors with that are not contiguous
/// (kiln_rt_device.copy): every model may be given one.
void addCopyKernel(mlir::ModuleOp module);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_BINARY_COPYKERNEL_H
