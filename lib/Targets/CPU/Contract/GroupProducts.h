// Products of bytes and words of four bits, with a scale for each group of steps.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_GROUPPRODUCTS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_GROUPPRODUCTS_H

#include "kiln/Targets/CPU/Microkernel.h"

namespace kiln::cpu {

/// As `emitMicrokernel` for a shape with `groupWords`.
llvm::SmallVector<mlir::Value> emitGroupProducts(codegen::KernelFrame &frame,
                                                 const MicrokernelShape &shape, mlir::Value lhs,
                                                 mlir::Value rhs, mlir::ValueRange init,
                                                 const Prefetch &prefetch);

/// Rows of the tallest tile, of which each has sums of a group and of all groups in registers.
int64_t maxGroupRows(const codegen::CPUInfo &target, int64_t vectors);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_GROUPPRODUCTS_H
