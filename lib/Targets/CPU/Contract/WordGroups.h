// Products of bf16 or f32 and words of four bits, with a scale for each group of steps: for rows so few that they are bound by
// memory, or by what widens the bits.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_WORDGROUPS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_WORDGROUPS_H

#include "kiln/Targets/CPU/Microkernel.h"

namespace kiln::cpu {

/// As `emitMicrokernel` for a shape with `groupWords` whose left operand is of bf16 or f32.
llvm::SmallVector<mlir::Value> emitWordGroups(codegen::KernelFrame &frame,
                                              const MicrokernelShape &shape, mlir::Value lhs,
                                              mlir::Value rhs, mlir::ValueRange init,
                                              const Prefetch &prefetch);

/// The most rows of f32; more share what has been widened and scaled.
int64_t maxWordGroupRows(const codegen::CPUInfo &target);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_WORDGROUPS_H
