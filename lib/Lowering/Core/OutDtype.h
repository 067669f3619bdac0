// Operators that compute in a type which the program names.
#ifndef KILN_LIB_LOWERING_CORE_OUTDTYPE_H
#define KILN_LIB_LOWERING_CORE_OUTDTYPE_H

#include "kiln/Dialect/Kernel/Builder/KernelBuilder.h"
#include "kiln/Dialect/Torch/TorchDialect.h"

namespace kiln::lowering {

/// Writes the calls that the higher-order `out_dtype(op, dtype, *args)` stands for in its place: its
/// tensors are cast to the type in which they and `dtype` promote, `op` computes on these, and the
/// result is cast to `dtype`. A failure has been reported to `kernels`.
mlir::LogicalResult lowerOutDtype(torch::HigherOrderOp op, kernel::KernelBuilder &kernels);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_CORE_OUTDTYPE_H
