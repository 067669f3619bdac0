// Schedules that kernels may have instead of the planner's, for tuning (docs/autotuning.md).
#ifndef KILN_TARGETS_CANDIDATES_H
#define KILN_TARGETS_CANDIDATES_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SetVector.h"

namespace kiln {

/// Distinct schedules. While there are such, errors go nowhere: they say why a verifier has refused one.
class Candidates {
public:
  /// `taken` is no candidate.
  explicit Candidates(kernel::ScheduleAttrInterface taken)
      : silence(taken.getContext(), [](mlir::Diagnostic &) { return mlir::success(); }) {
    schedules.insert(taken);
  }

  void add(kernel::ScheduleAttrInterface schedule) { schedules.insert(schedule); }

  /// The schedule of these numbers, unless its verifier refuses it.
  template <typename Schedule, typename... Numbers> void add(Numbers... numbers) {
    mlir::MLIRContext *context = schedules.front().getContext();
    // A verifier's failure is that of the error which it reports: without one it would accept.
    auto report = [&] { return mlir::emitError(mlir::UnknownLoc::get(context)); };
    if (auto schedule = Schedule::getChecked(report, context, numbers...))
      schedules.insert(schedule);
  }

  llvm::ArrayRef<kernel::ScheduleAttrInterface> get() const {
    return schedules.getArrayRef().drop_front();
  }

private:
  mlir::ScopedDiagnosticHandler silence;
  llvm::SetVector<kernel::ScheduleAttrInterface> schedules;
};

} // namespace kiln

#endif // KILN_TARGETS_CANDIDATES_H
