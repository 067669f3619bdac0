// The part of each operand that a kernel reads, so that kernels that read at other places of a
// tensor become equal.
#ifndef KILN_LIB_TRANSFORMS_KERNEL_READSPANS_H
#define KILN_LIB_TRANSFORMS_KERNEL_READSPANS_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::kernel {

/// Changes each argument of `func` that is read in part, at places that are known, into the
/// elements from the first one read to the last (`kernel.span`), which it then reads as a tensor
/// of one dim. The result is the number of the first element for each argument, null for those that
/// are as they were.
llvm::SmallVector<sym::ExprAttr> readSpans(FuncOp func);

} // namespace kiln::kernel

#endif // KILN_LIB_TRANSFORMS_KERNEL_READSPANS_H
