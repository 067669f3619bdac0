// Launches of Triton kernels that the program's user has written.
#ifndef KILN_LIB_LOWERING_CORE_TRITON_H
#define KILN_LIB_LOWERING_CORE_TRITON_H

#include "kiln/Dialect/Kernel/Builder/KernelBuilder.h"
#include "kiln/Dialect/Torch/TorchDialect.h"

namespace kiln::lowering {

/// Makes a `kernel.extern "triton"` of the call, whose operands lie in memory as export has
/// recorded. A refusal is the builder's failure.
mlir::LogicalResult lowerTriton(torch::HigherOrderOp op, kernel::KernelBuilder &kernels);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_CORE_TRITON_H
