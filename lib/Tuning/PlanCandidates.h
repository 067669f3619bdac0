// Kernels planned with schedules that are to be measured.
#ifndef KILN_LIB_TUNING_PLANCANDIDATES_H
#define KILN_LIB_TUNING_PLANCANDIDATES_H

#include "KernelSet.h"

namespace kiln::tuning {

using PlannedModules = std::vector<mlir::OwningOpRef<mlir::ModuleOp>>;

/// Adds schedules to try for `func` beside the one that it has, planned, until there are `most`:
/// those that are not in `tried`, which they are added to.
void planCandidates(Bundler &bundler, const Target &target, kernel::FuncOp func, size_t most,
                    llvm::SmallDenseSet<mlir::Attribute> &tried, PlannedModules &planned);

/// The kernel of a module that Bundler::plan has made.
inline kernel::FuncOp getFunc(mlir::ModuleOp planned) {
  return *planned.getOps<kernel::FuncOp>().begin();
}

/// Null if `text` is no schedule.
kernel::ScheduleAttrInterface parseSchedule(llvm::StringRef text, mlir::MLIRContext *context);

/// Places in the program, and the entries of a bundle that are launched there.
using Launches = std::vector<std::pair<unsigned, int64_t>>;
/// The entries in the order of the places.
std::vector<int64_t> getSequence(Launches launches);

} // namespace kiln::tuning

#endif // KILN_LIB_TUNING_PLANCANDIDATES_H
