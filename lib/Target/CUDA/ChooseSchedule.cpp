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
    bool isWrong = false;
    for (auto func : module.getOps<kernel::FuncOp>())
      isWrong |= folds.contains(func) ? failed(runPipeline(host, func)) : failed(plan(func));
    if (isWrong)
      signalPassFailure();
  }

  static LogicalResult plan(kernel::FuncOp func) {
    using Planned = FailureOr<KernelPlan>;
    Operation *root = func.getRoot();
    auto plan = llvm::TypeSwitch<Operation *, Planned>(root)
                    .Case([&](kernel::MapOp) { return planMap(func); })
                    .Case<kernel::ScanOp, kernel::ScatterOp, kernel::SortOp, kernel::RepeatOp>(
                        [&](auto) { return planTasks(func); })
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
