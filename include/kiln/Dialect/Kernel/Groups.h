// Groups: kernels that run others, their parts, in one launch.
//
//   kernel.func private @norm_part(…) …
//   kernel.func private @contract_0_part(…) …
//   kernel.func private @contract_1_part(…) …
//   kernel.func @group_0(%x: …, %scale: …, %w: …, %v: …) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
//     %0 = kernel.call @norm_part(%x, %scale) : …
//     %1 = kernel.call @contract_0_part(%0, %w) : …
//     %2 = kernel.call @contract_1_part(%0, %v, %1) : …
//     kernel.return %1, %2 : …
//   }
//
// Results of a part that the group returns are divided among blocks, as a launch of that part
// alone would divide them. Those that it does not return (%0), every block computes for itself before
// anything else, in memory that no other one sees. A part may read what another one returns (%1)
// where the block that reads it is the one that has written it.
#ifndef KILN_DIALECT_KERNEL_GROUPS_H
#define KILN_DIALECT_KERNEL_GROUPS_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::kernel {

/// True if `func` runs other kernels.
inline bool isGroup(FuncOp func) { return llvm::isa<CallOp>(func.getRoot()); }
/// Its calls, in order; none in another kernel.
inline llvm::SmallVector<CallOp> getParts(FuncOp group) {
  return llvm::to_vector(group.getBody().getOps<CallOp>());
}
/// The kernel that a group calls.
inline FuncOp getPart(CallOp call) {
  return mlir::SymbolTable::lookupNearestSymbolFrom<FuncOp>(call, call.getKernelAttr());
}
/// The results of a group.
inline mlir::OperandRange getReturned(FuncOp group) {
  return group.getBody().front().getTerminator()->getOperands();
}

/// Fails, with an error on `group`, where it is none: it holds calls, all of whose results it returns, each
/// once, or none of them; and what it does not return is computed of its operands alone.
mlir::LogicalResult verifyGroup(FuncOp group);

/// The results of a kernel that are the memory of an operand, as those of its parts are: pairs of
/// an operand and a result.
llvm::SmallVector<std::pair<unsigned, unsigned>> getUpdated(FuncOp func);

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_GROUPS_H
