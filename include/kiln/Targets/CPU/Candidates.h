// Schedules that kernels may have instead of the planner's, for tuning (docs/autotuning.md).
#ifndef KILN_TARGETS_CPU_CANDIDATES_H
#define KILN_TARGETS_CPU_CANDIDATES_H

#include "kiln/Targets/CPU/CPUDialect.h"
#include "llvm/ADT/SetVector.h"

namespace kiln::cpu {

/// Distinct schedules.
class Candidates {
public:
  /// `taken` is no candidate.
  explicit Candidates(kernel::ScheduleAttrInterface taken) { schedules.insert(taken); }

  /// A null schedule is one that the attribute's verifier has refused.
  void add(kernel::ScheduleAttrInterface schedule) {
    if (schedule)
      schedules.insert(schedule);
  }

  llvm::ArrayRef<kernel::ScheduleAttrInterface> get() const {
    return schedules.getArrayRef().drop_front();
  }

private:
  llvm::SetVector<kernel::ScheduleAttrInterface> schedules;
};

/// For verifiers of attributes that may well be refused.
inline llvm::function_ref<mlir::InFlightDiagnostic()> silently() {
  static auto refuse = [] { return mlir::InFlightDiagnostic(); };
  return refuse;
}

/// Schedules like the one that the kernel has, the most promising first. The kernel may not be able
/// to run with each of them: its planner says that.
llvm::SmallVector<kernel::ScheduleAttrInterface> enumerateSchedules(kernel::FuncOp func,
                                                                    const codegen::CPUInfo &target);

// Those of each kind of kernel.
void addMapCandidates(kernel::FuncOp func, const codegen::CPUInfo &target, Candidates &candidates);
void addContractCandidates(kernel::FuncOp func, const codegen::CPUInfo &target,
                           Candidates &candidates);
void addAttentionCandidates(kernel::FuncOp func, const codegen::CPUInfo &target,
                            Candidates &candidates);

} // namespace kiln::cpu

#endif // KILN_TARGETS_CPU_CANDIDATES_H
