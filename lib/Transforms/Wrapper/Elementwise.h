// Kernels that may write their result over an operand.
#ifndef KILN_TRANSFORMS_WRAPPER_ELEMENTWISE_H
#define KILN_TRANSFORMS_WRAPPER_ELEMENTWISE_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::wrapper {

/// Whether element i of a result (in memory) is the only one whose value may depend on element i of
/// operand `argument`. A task may then write its elements of the result over the operand, as every
/// element is read before it is written and by nobody else.
bool isElementwise(kernel::FuncOp func, mlir::BlockArgument argument);

/// True if the result of `func` may be the memory of operand `argument`.
inline bool mayWriteOver(kernel::FuncOp func, mlir::BlockArgument argument) {
  return func.getUpdates() == argument.getArgNumber() || isElementwise(func, argument);
}

} // namespace kiln::wrapper

#endif // KILN_TRANSFORMS_WRAPPER_ELEMENTWISE_H
