// Schedules that CPUs may run kernels with instead of the planner's, for tuning
// (docs/autotuning.md).
#ifndef KILN_TARGETS_CPU_CANDIDATES_H
#define KILN_TARGETS_CPU_CANDIDATES_H

#include "kiln/Targets/CPU/CPUDialect.h"
#include "kiln/Targets/Candidates.h"

namespace kiln::cpu {

/// Schedules like the one that the kernel has, the most promising first. The kernel may not be able
/// to run with each of them: its planner says that.
llvm::SmallVector<kernel::ScheduleAttrInterface> enumerateSchedules(kernel::FuncOp func,
                                                                    const codegen::CPUInfo &target);

/// Layouts of a contract's operands (`cpu.layout`): what is planned, and then others, the most
/// promising first. None: nothing can be chosen.
llvm::SmallVector<mlir::Attribute> enumerateLayouts(kernel::ContractOp contract,
                                                    const codegen::CPUInfo &target);

// Those of each kind of kernel.
void addMapCandidates(kernel::FuncOp func, const codegen::CPUInfo &target, Candidates &candidates);
void addContractCandidates(kernel::FuncOp func, const codegen::CPUInfo &target,
                           Candidates &candidates);
void addAttentionCandidates(kernel::FuncOp func, const codegen::CPUInfo &target,
                            Candidates &candidates);

} // namespace kiln::cpu

#endif // KILN_TARGETS_CPU_CANDIDATES_H
