// Products of bf16 and words of four bits, with a scale for each group of steps: for rows so few that memory is what
// bounds them.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_PAIRGROUPS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_PAIRGROUPS_H

#include "kiln/Targets/CPU/Microkernel.h"

namespace kiln::cpu {

/// As `emitMicrokernel` for a shape with `groupWords` whose left operand is of bf16.
llvm::SmallVector<mlir::Value> emitPairGroups(codegen::KernelFrame &frame,
                                              const MicrokernelShape &shape, mlir::Value lhs,
                                              mlir::Value rhs, mlir::ValueRange init,
                                              const Prefetch &prefetch);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_PAIRGROUPS_H
