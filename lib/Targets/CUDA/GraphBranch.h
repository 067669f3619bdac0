//===- GraphBranch.h - Two ways to compute an operation ---------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_GRAPHBRANCH_H
#define KILN_LIB_TARGETS_CUDA_GRAPHBRANCH_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

namespace kiln::cuda {

/// Replaces the structured op by a `kernel.cond` between two graphs: NAME_in_parts, whose copy of
/// the op `divide` gets, where `when` is at least zero in a run, and else NAME.
void branchOnSizes(mlir::Operation *op, sym::Expr when, llvm::StringRef name,
                   mlir::SymbolTable &symbols, llvm::function_ref<void(mlir::Operation *)> divide);

/// Divides the work of every `OpTy` of the module for which `find(op)` returns a split. A split
/// says in `when`, an optional expression, at which sizes it pays: with none it is made for all
/// sizes, else the op is branched on (`branchOnSizes`, graphs named after `name`). `divide(op,
/// split)` makes it.
template <typename OpTy, typename Find, typename Divide>
void divideEach(mlir::ModuleOp module, llvm::StringRef name, Find find, Divide divide) {
  mlir::SymbolTable symbols(module);
  llvm::SmallVector<OpTy> ops;
  // And not in the kernels of folds, which stay single ops.
  for (auto graph : module.getOps<mlir::func::FuncOp>())
    graph.walk([&](OpTy op) { ops.push_back(op); });
  for (OpTy op : ops) {
    auto split = find(op);
    if (!split)
      continue;
    if (split->when)
      branchOnSizes(op, *split->when, name, symbols,
                    [&](mlir::Operation *copy) { divide(mlir::cast<OpTy>(copy), *split); });
    else
      divide(op, *split);
  }
}

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_GRAPHBRANCH_H
