// Prints of a program.
#ifndef KILN_LIB_LOWERING_CORE_PRINT_H
#define KILN_LIB_LOWERING_CORE_PRINT_H

#include "kiln/Dialect/Kernel/Builder/KernelBuilder.h"
#include "kiln/Dialect/Torch/TorchDialect.h"

namespace kiln::lowering {

/// Lowers the higher-order `print` to a call of the runtime (runtime/print.c), for which the format
/// is taken apart here. A failure has been reported to `kernels`.
mlir::LogicalResult lowerPrint(torch::HigherOrderOp op, kernel::KernelBuilder &kernels);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_CORE_PRINT_H
