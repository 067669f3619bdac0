// cpu-choose-schedule: decides how the loops of each kernel are run on a CPU.
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Targets/CPU/KernelEmitters.h"
#include "kiln/Targets/CPU/Passes.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "cpu-choose-schedule"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUCHOOSESCHEDULE
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

/// No tasks for results without elements: code for tasks takes for granted that there are some.
static sym::Expr withoutEmpty(kernel::FuncOp func, sym::Expr grid) {
  sym::Assumptions known;
  kernel::addSymbolRanges(func, known);
  sym::Expr most = 0;
  for (Type type : func.getResultTypes())
    most = sym::Expr::max(most, sym::product(sym::getShape(cast<RankedTensorType>(type))));
  if (!known.isPositive(grid) || known.isPositive(most))
    return grid;
  return known.simplify(grid * sym::Expr::min(most, 1));
}

namespace {

struct ChooseSchedule : kiln::cpu::impl::CpuChooseScheduleBase<ChooseSchedule> {
  using CpuChooseScheduleBase::CpuChooseScheduleBase;

  void runOnOperation() override {
    kernel::FuncOp func = getOperation();
    if (kernel::LaunchAttr launch = func.getLaunchAttr(); launch && launch.getThreads())
      return; // planned for a device
    FailureOr<CPUInfo> target = getTarget(func);
    if (failed(target))
      return signalPassFailure();
    LDBG() << "kernel @" << func.getSymName();
    Operation *root = func.getRoot();
    bool isGiven = func.getScheduleAttr() != nullptr;
    using Planned = FailureOr<KernelPlan>;
    auto plan = llvm::TypeSwitch<Operation *, Planned>(root)
                    .Case([&](kernel::MapOp) { return planMap(func, *target); })
                    .Case([&](kernel::ContractOp) { return planContract(func, *target); })
                    .Case([&](kernel::WinogradOp) { return planWinograd(func, *target); })
                    .Case([&](kernel::AttentionOp) { return planAttention(func, *target); })
                    .Case([&](kernel::ScanOp) { return planScan(func, *target); })
                    .Case([&](kernel::ScatterOp) { return planScatter(func, *target); })
                    .Case([&](kernel::SortOp) { return planSort(func, *target); })
                    .Case([&](kernel::RepeatOp) { return planRepeat(func, *target); })
                    .Default([](Operation *) -> Planned { llvm_unreachable("verified"); });
    if (failed(plan))
      return signalPassFailure();
    if (!plan->grid.isValid()) {
      func.emitError("the number of tasks does not fit 64 bits");
      return signalPassFailure();
    }
    func.setScheduleAttr(plan->schedule);
    sym::Expr grid = withoutEmpty(func, plan->grid);
    func.setLaunchAttr(kernel::LaunchAttr::get(sym::ExprAttr::get(&getContext(), grid),
                                               /*threads=*/0, plan->scratchBytes));
    if (!isGiven)
      emitRemark(RemarkKind::Chosen, root, getArgument(), "Schedule",
                 [&] { return RemarkText{describeSchedule(func), plan->reason, plan->cycles}; });
  }
};

} // namespace
