// Constants in the order in which they are read.
#ifndef KILN_TARGET_CPU_PACKOPERANDS_H
#define KILN_TARGET_CPU_PACKOPERANDS_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::cpu {

/// Makes constants that `region` of `op` reads run along `dim`, by views in front of `op` that
/// constant folding evaluates. To be called where no pass reads through views any more.
void moveLast(mlir::Operation *op, mlir::Region &region, sym::Expr dim);

} // namespace kiln::cpu

#endif // KILN_TARGET_CPU_PACKOPERANDS_H
