// Giving a product the batch dims of what it is computed with.
#ifndef KILN_LIB_TRANSFORMS_KERNEL_SPLITBATCH_H
#define KILN_LIB_TRANSFORMS_KERNEL_SPLITBATCH_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::kernel {

/// `contract` with batch dims of these sizes in the place of its only one, which is as large as
/// they are together (as `bmm` has it of what was [batch, heads, rows, columns]); itself, if it has
/// another batch or not one dim of each other kind. The old result becomes a view, or reads of it
/// reads of the new one.
ContractOp splitBatch(mlir::RewriterBase &rewriter, ContractOp contract,
                      llvm::ArrayRef<sym::Expr> sizes);

} // namespace kiln::kernel

#endif // KILN_LIB_TRANSFORMS_KERNEL_SPLITBATCH_H
