#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Target/CPU/Passes.h"
#include "kiln/Target/CUDA/KernelEmitters.h"
#include "kiln/Target/CUDA/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDACHOOSESCHEDULE
#include "kiln/Target/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Whether a buffer begins at a multiple of `vectorBytes`: the arena, weights, inputs and outputs
/// do (KILN_CUDA_ALIGNMENT), what a nested graph is given need not.
static bool isAligned(Value buffer) {
  while (Operation *op = buffer.getDefiningOp()) {
    if (auto reuse = dyn_cast<wrapper::ReuseOp>(op)) {
      buffer = reuse.getBuffer();
      continue;
    }
    auto view = dyn_cast<wrapper::ViewOp>(op);
    if (!view)
      return isa<wrapper::AllocOp, wrapper::ConstantOp>(op) ||
             (isa<wrapper::OutputOp>(op) && isa<wrapper::ProgramOp>(op->getParentOp()));
    auto offset = view.getOffset().getValue().constant();
    if (!offset ||
        *offset * wrapper::getElementBytes(view.getType().getElementType()) % vectorBytes)
      return false;
    buffer = view.getBuffer();
  }
  return isa<wrapper::ProgramOp>(cast<BlockArgument>(buffer).getOwner()->getParentOp());
}

/// Marks the kernels that are launched with aligned buffers alone.
static void markAligned(ModuleOp module) {
  llvm::DenseMap<StringAttr, bool> aligned;
  module.walk([&](wrapper::LaunchOp launch) {
    bool &all = aligned.try_emplace(launch.getKernelAttr().getAttr(), true).first->second;
    all &= llvm::all_of(launch.getOperands(), isAligned);
  });
  for (auto func : module.getOps<kernel::FuncOp>())
    if (aligned.lookup(func.getSymNameAttr()))
      func->setAttr(alignedAttrName, UnitAttr::get(module.getContext()));
}

namespace {

struct ChooseSchedule : kiln::cuda::impl::CudaChooseScheduleBase<ChooseSchedule> {
  using CudaChooseScheduleBase::CudaChooseScheduleBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    llvm::SmallPtrSet<Operation *, 8> folds;
    module.walk([&](wrapper::FoldOp fold) { folds.insert(symbols.lookup(fold.getKernel())); });
    OpPassManager host(kernel::FuncOp::getOperationName());
    host.addPass(cpu::createCpuChooseSchedule({cpu}));
    markAligned(module);
    bool isWrong = false;
    for (auto func : module.getOps<kernel::FuncOp>())
      isWrong |= folds.contains(func) ? failed(runPipeline(host, func)) : failed(plan(func));
    if (isWrong)
      signalPassFailure();
  }

  LogicalResult plan(kernel::FuncOp func) {
    using Planned = FailureOr<KernelPlan>;
    Operation *root = func.getRoot();
    auto plan =
        llvm::TypeSwitch<Operation *, Planned>(root)
            .Case([&](kernel::MapOp) { return planMap(func); })
            .Case([&](kernel::ContractOp) { return planContract(func, tf32); })
            .Case([&](kernel::AttentionOp) { return planAttention(func); })
            .Case([&](kernel::ScanOp scan) {
              return isBlockScan(scan) ? planScan(func) : planTasks(func);
            })
            .Case([&](kernel::SortOp sort) {
              return isBlockSort(sort) ? planSort(func) : planTasks(func);
            })
            .Case<kernel::ScatterOp, kernel::RepeatOp>([&](auto) { return planTasks(func); })
            .Default([&](Operation *op) -> Planned {
              return op->emitError("cannot be compiled for CUDA yet: there is no code for ")
                     << op->getName();
            });
    if (failed(plan))
      return failure();
    if (!plan->grid.isValid())
      return func.emitError("the number of blocks does not fit 64 bits");
    Builder builder(func.getContext());
    func.setScheduleAttr(plan->schedule);
    func->setAttr("grid", sym::ExprAttr::get(func.getContext(), plan->grid));
    func->setAttr(cpu::threadsAttrName, builder.getI64IntegerAttr(plan->threads));
    return success();
  }
};

} // namespace
