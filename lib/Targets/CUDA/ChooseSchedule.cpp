// cuda-choose-schedule: decides which threads of a GPU run each kernel.
#include "../../../runtime/ir_interface.h"
#include "CUDA/Hopper/Variants.h"
#include "kiln/Codegen/RuntimeStruct.h"
#include "kiln/Dialect/Kernel/Groups.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDACHOOSESCHEDULE
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static_assert(KILN_RT_DEVICE_ALIGNMENT % vectorBytes == 0);

namespace {
/// Knows which buffers begin at multiples of `vectorBytes`: the arena, weights, inputs and outputs
/// do (KILN_RT_DEVICE_ALIGNMENT), and so does what a nested graph is given if its callers have it
/// so.
class Alignment {
public:
  explicit Alignment(ModuleOp module) {
    module.walk([&](wrapper::GraphCallOpInterface call) {
      for (FlatSymbolRefAttr graph : call.getGraphs())
        calls[graph.getAttr()].push_back(call);
    });
  }

  bool isAligned(Value buffer) const {
    while (Operation *op = buffer.getDefiningOp()) {
      if (auto reuse = dyn_cast<wrapper::ReuseOp>(op)) {
        buffer = reuse.getBuffer();
        continue;
      }
      if (auto output = dyn_cast<wrapper::OutputOp>(op))
        return isAligned(output);
      auto view = dyn_cast<wrapper::ViewOp>(op);
      if (!view)
        return isa<wrapper::AllocOp, wrapper::ConstantOp>(op);
      auto offset = view.getOffset().getValue().constant();
      if (!offset ||
          *offset * wrapper::getElementBytes(view.getType().getElementType()) % vectorBytes)
        return false;
      buffer = view.getBuffer();
    }
    auto argument = cast<BlockArgument>(buffer);
    Operation *function = argument.getOwner()->getParentOp();
    return isa<wrapper::ProgramOp>(function) || isGivenAligned(function, [&](auto call) {
             return call.getIns()[argument.getArgNumber()];
           });
  }

private:
  bool isAligned(wrapper::OutputOp output) const {
    Operation *function = output->getParentOp();
    if (isa<wrapper::ProgramOp>(function))
      return true;
    auto graph = cast<wrapper::FuncOp>(function);
    for (unsigned i = 0; i < graph.getFunctionType().getNumResults(); ++i)
      if (graph.isGiven(i))
        return false;
    return isGivenAligned(function, [&](auto call) { return call.getOuts()[output.getIndex()]; });
  }

  /// Whether `buffer`, what a caller has for one of the graph's, is aligned in all of them. What
  /// loops have is slices, or takes turns.
  template <typename Buffer> bool isGivenAligned(Operation *graph, Buffer buffer) const {
    auto it = calls.find(SymbolTable::getSymbolName(graph));
    return it != calls.end() && llvm::all_of(it->second, [&](Operation *call) {
             if (auto branch = dyn_cast<wrapper::IfOp>(call))
               return isAligned(buffer(branch));
             auto plain = dyn_cast<wrapper::CallOp>(call);
             return plain && isAligned(buffer(plain));
           });
  }

  llvm::DenseMap<StringAttr, SmallVector<Operation *>> calls;
};
} // namespace

/// Marks the kernels that are launched with aligned buffers alone.
static void markAligned(ModuleOp module) {
  Alignment alignment(module);
  llvm::DenseMap<StringAttr, bool> aligned;
  module.walk([&](wrapper::LaunchOp launch) {
    bool &all = aligned.try_emplace(launch.getKernelAttr().getAttr(), true).first->second;
    all &= llvm::all_of(launch.getOperands(),
                        [&](Value buffer) { return alignment.isAligned(buffer); });
  });
  for (auto func : module.getOps<kernel::FuncOp>())
    for (kernel::CallOp call : kernel::getParts(func))
      aligned.try_emplace(call.getKernelAttr().getAttr(), true).first->second &=
          aligned.lookup(func.getSymNameAttr());
  for (auto func : module.getOps<kernel::FuncOp>())
    if (aligned.lookup(func.getSymNameAttr()))
      func.setAligned(true);
}

namespace {

struct ChooseSchedule : kiln::cuda::impl::CudaChooseScheduleBase<ChooseSchedule> {
  using CudaChooseScheduleBase::CudaChooseScheduleBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    llvm::SmallPtrSet<Operation *, 8> folds;
    module.walk([&](wrapper::FoldOp fold) { folds.insert(symbols.lookup(fold.getKernel())); });
    markAligned(module);
    bool isWrong = false;
    // Variants have been planned by the pass that makes them, and parts are with their group.
    for (auto func : module.getOps<kernel::FuncOp>())
      isWrong |= !folds.contains(func) && !func->hasAttr(variantAttrName) && !func.isPrivate() &&
                 failed(plan(func));
    if (isWrong)
      signalPassFailure();
  }

  /// A schedule that is there decides.
  static bool isTasks(kernel::FuncOp func, bool otherwise) {
    Attribute given = func.getScheduleAttr();
    return given ? isa<TasksScheduleAttr>(given) : otherwise;
  }

  LogicalResult plan(kernel::FuncOp func) {
    using Planned = FailureOr<KernelPlan>;
    Operation *root = func.getRoot();
    auto plan =
        llvm::TypeSwitch<Operation *, Planned>(root)
            .Case([&](kernel::MapOp) { return planMap(func); })
            .Case([&](kernel::ContractOp contract) -> Planned {
              if (contract.getBytes())
                return contract.emitOpError("of bytes cannot be compiled for CUDA yet");
              return planContract(func, tf32);
            })
            .Case([&](kernel::CallOp) { return planGroup(func); })
            .Case([&](kernel::AttentionOp) { return planAttention(func); })
            .Case([&](kernel::ScanOp scan) -> Planned {
              if (scan.getPart())
                return scan.emitOpError("with a part cannot be compiled for CUDA");
              return isTasks(func, !isBlockScan(scan)) ? planTasks(func) : planScan(func);
            })
            .Case([&](kernel::SortOp sort) {
              return isTasks(func, !isBlockSort(sort)) ? planTasks(func) : planSort(func);
            })
            .Case([&](kernel::MergeOp) { return planMerge(func); })
            .Case([&](kernel::ScatterOp) {
              return isTasks(func, !isPlaceScatter(func)) ? planTasks(func) : planScatter(func);
            })
            .Case([&](kernel::RepeatOp) { return planTasks(func); })
            .Default([&](Operation *op) -> Planned {
              return op->emitError("cannot be compiled for CUDA yet: there is no code for ")
                     << op->getName();
            });
    if (failed(plan))
      return failure();
    if (!plan->grid.isValid())
      return func.emitError("the number of blocks does not fit 64 bits");
    const char *noVariant = nullptr;
    if (auto architecture = getVariantArchitecture(func->getAttr(variantScheduleAttrName)))
      if (failed(planVariant(func, *architecture, noVariant)))
        return failure();
    func.setScheduleAttr(plan->schedule);
    func.setLaunchAttr(plan->launch());
    emitRemark(RemarkKind::Chosen, root, getArgument(), "Schedule", [&] {
      return RemarkText{describeSchedule(func), plan->reason.str(), plan->cycles};
    });
    return success();
  }
};

} // namespace
