// The symbols that functions give a value.
#ifndef KILN_DIALECT_KERNEL_GRAPHCALLS_H
#define KILN_DIALECT_KERNEL_GRAPHCALLS_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::kernel {

/// The symbols that a function gives a value, itself or by calling nested graphs.
llvm::SetVector<sym::Expr> getDefinedSymbols(mlir::func::FuncOp function);

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_GRAPHCALLS_H
