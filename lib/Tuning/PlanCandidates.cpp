// Plans kernels with schedules that are to be measured.
#include "PlanCandidates.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::tuning;

void tuning::planCandidates(Bundler &bundler, const Target &target, kernel::FuncOp func,
                            size_t most, llvm::SmallDenseSet<Attribute> &tried,
                            PlannedModules &planned) {
  for (kernel::ScheduleAttrInterface schedule : target.enumerateSchedules(func)) {
    if (planned.size() == most)
      break;
    if (!tried.insert(schedule).second)
      continue;
    if (OwningOpRef<ModuleOp> module = bundler.plan(func, schedule))
      planned.push_back(std::move(module));
  }
}

kernel::ScheduleAttrInterface tuning::parseSchedule(StringRef text, MLIRContext *context) {
  ScopedDiagnosticHandler handler(context, [](Diagnostic &) { return success(); });
  return dyn_cast_if_present<kernel::ScheduleAttrInterface>(parseAttribute(text, context));
}

std::vector<int64_t> tuning::getSequence(Launches launches) {
  llvm::sort(launches);
  std::vector<int64_t> sequence;
  for (auto [place, entry] : launches)
    sequence.push_back(entry);
  return sequence;
}
