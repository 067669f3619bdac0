// Queries about regions, for the passes that rewrite contracts.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_CONTRACTREGIONS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_CONTRACTREGIONS_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/IR/PatternMatch.h"

namespace kiln::cpu {

/// Constants, and maps of nothing but constants, are known before the program runs.
bool isKnownConstant(mlir::Value tensor);

/// The tensors that `region` reads, once for each read.
llvm::SmallVector<mlir::Value> readTensors(mlir::Region &region);

/// Copies the body of `source` to the empty region `target`, its dims renamed to `dims`, which are as
/// many.
void renameBody(mlir::Region &source, mlir::Region &target, llvm::ArrayRef<sym::Expr> dims,
                mlir::RewriterBase &rewriter);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_CONTRACTREGIONS_H
