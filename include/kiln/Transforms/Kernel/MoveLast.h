// Constants in the order in which they are read.
#ifndef KILN_TRANSFORMS_KERNEL_MOVELAST_H
#define KILN_TRANSFORMS_KERNEL_MOVELAST_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::kernel {

/// Makes constants that `region` of `op` reads run along `dim`, by views in front of `op` that
/// constant folding evaluates. To be called where no pass reads through views any more.
void moveLast(mlir::Operation *op, mlir::Region &region, sym::Expr dim);

} // namespace kiln::kernel

#endif // KILN_TRANSFORMS_KERNEL_MOVELAST_H
