// Schedules that kernels may have instead of the planner's, for tuning (docs/autotuning.md).
#ifndef KILN_TARGETS_CANDIDATES_H
#define KILN_TARGETS_CANDIDATES_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "llvm/ADT/SetVector.h"

namespace kiln {

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

} // namespace kiln

#endif // KILN_TARGETS_CANDIDATES_H
