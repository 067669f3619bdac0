// The work of a kernel as its ops say it, however a target runs it: what a roofline is reckoned with.
#ifndef KILN_DIALECT_KERNEL_COSTS_H
#define KILN_DIALECT_KERNEL_COSTS_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::kernel {

struct KernelCosts {
  /// Operations on floating-point numbers, each of arithmetic and of mathematics one, a complex
  /// product six; in contracts also those on integers. A value is counted once for each combination
  /// of the dims that it depends on.
  sym::Expr flops;
  /// The bytes that have to be moved at least, by operand, then by result: what is read of each
  /// operand, every element once, and all of each result. Invalid where they have no expression.
  llvm::SmallVector<sym::Expr> bytes;
};

KernelCosts getCosts(FuncOp func);

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_COSTS_H
