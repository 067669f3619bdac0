//===- GraphBranch.h - Two ways to compute an operation ---------*- C++ -*-===//
#ifndef KILN_LIB_TARGET_CUDA_GRAPHBRANCH_H
#define KILN_LIB_TARGET_CUDA_GRAPHBRANCH_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace kiln::cuda {

/// Replaces the structured op by a `kernel.cond` between two graphs: NAME_in_parts, whose copy of
/// the op `divide` gets, where `when` is at least zero in a run, and else NAME.
void branchOnSizes(mlir::Operation *op, sym::Expr when, llvm::StringRef name,
                   mlir::SymbolTable &symbols, llvm::function_ref<void(mlir::Operation *)> divide);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGET_CUDA_GRAPHBRANCH_H
