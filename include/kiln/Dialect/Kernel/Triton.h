// Names by which the stages know launches of Triton kernels.
#ifndef KILN_DIALECT_KERNEL_TRITON_H
#define KILN_DIALECT_KERNEL_TRITON_H

#include "llvm/ADT/StringRef.h"

namespace kiln::kernel {

/// The higher-order operator that export makes of such a launch.
inline constexpr llvm::StringLiteral tritonOperator = "triton_kernel_wrapper_functional";
/// On it: the kernel.triton that is launched.
inline constexpr llvm::StringLiteral tritonAttrName = "kernel.triton";
/// The library of a kernel.extern that is such a launch; its callee is the kernel.triton.
inline constexpr llvm::StringLiteral tritonLibrary = "triton";

/// Limits of what a GPU launches.
inline constexpr int64_t maxTritonThreads = 1024, maxTritonShared = 227 << 10,
                         maxTritonAlignment = 16;

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_TRITON_H
