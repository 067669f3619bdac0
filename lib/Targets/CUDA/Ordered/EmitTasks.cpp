// Kernels whose order matters, with the CPU's code: a thread runs what is a task there, as small as
// tasks can be.
#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static constexpr int64_t taskThreads = 64;

/// The plan of the CPU's kernel with tasks as small as can be.
static FailureOr<codegen::KernelPlan> planCpu(kernel::FuncOp func) {
  const codegen::CPUInfo &target = getThreadTarget();
  func.setScheduleAttr(codegen::getSmallestTasks(func.getRoot()));
  return llvm::TypeSwitch<Operation *, FailureOr<codegen::KernelPlan>>(func.getRoot())
      .Case([&](kernel::ScanOp) { return codegen::planScan(func, target); })
      .Case([&](kernel::ScatterOp) { return codegen::planScatter(func, target); })
      .Case([&](kernel::SortOp) { return codegen::planSort(func, target); })
      .Case([&](kernel::RepeatOp) { return codegen::planRepeat(func, target); })
      .Default([](Operation *) -> FailureOr<codegen::KernelPlan> { llvm_unreachable("a task"); });
}

FailureOr<KernelPlan> cuda::planTasks(kernel::FuncOp func, std::optional<int64_t> wanted) {
  kernel::ScheduleAttrInterface given = func.getScheduleAttr();
  auto schedule = dyn_cast_if_present<TasksScheduleAttr>(given);
  if (given && !schedule)
    return emitUnknownSchedule(func);
  StringRef reason =
      given ? givenReason : "nothing is known of the order but that of the CPU's code";
  if (!schedule)
    schedule = TasksScheduleAttr::get(func.getContext(), wanted.value_or(taskThreads));
  FailureOr<codegen::KernelPlan> plan = planCpu(func);
  if (failed(plan))
    return failure();
  int64_t threads = schedule.getThreads();
  return KernelPlan{schedule, plan->grid.ceilDiv(threads), threads, reason};
}

LogicalResult cuda::emitTasks(DeviceFrame &frame, Operation *root) {
  FailureOr<codegen::KernelPlan> plan = planCpu(frame.func);
  if (failed(plan))
    return failure();
  sym::Expr block = frame.addVariable(frame.block, plan->grid.ceilDiv(frame.numThreads));
  sym::Expr thread = frame.addVariable(frame.thread, frame.numThreads);
  sym::Expr task = frame.numThreads * block + thread;
  LogicalResult result = success();
  frame.emitIf(frame.emitLess(task, plan->grid), [&] {
    frame.task = frame.simplifyAndEmit(task);
    result =
        llvm::TypeSwitch<Operation *, LogicalResult>(root)
            .Case([&](kernel::ScanOp scan) { return codegen::emitScan(frame, scan); })
            .Case([&](kernel::ScatterOp scatter) { return codegen::emitScatter(frame, scatter); })
            .Case([&](kernel::SortOp sort) { return codegen::emitSort(frame, sort); })
            .Case([&](kernel::RepeatOp repeat) { return codegen::emitRepeat(frame, repeat); })
            .Default([](Operation *) { return failure(); });
  });
  return result;
}
