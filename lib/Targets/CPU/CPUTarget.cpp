// The target `cpu`.
#include "CPU/Contract/ContractRegions.h"
#include "kiln/Targets/CPU/CPU.h"
#include "kiln/Targets/CPU/Candidates.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Targets/Target.h"
#include "kiln/Transforms/Passes.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

namespace kiln::cpu {
#define GEN_PASS_REGISTRATION
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

namespace {

struct Options : PassPipelineOptions<Options> {
  Option<std::string> tune{*this, "tune", llvm::cl::desc("numbers in the place of the CPU's"),
                           llvm::cl::init("")};
  Option<int64_t> winograd{
      *this, "winograd",
      llvm::cl::desc("the largest tiles of Winograd's convolutions, 2 or 4; 0: none"),
      llvm::cl::init(0)};
};

class CPUTarget : public Target {
public:
  CPUTarget(codegen::CPUInfo cpu, int64_t winograd)
      : Target("cpu", std::move(cpu)), winograd(winograd) {}

  void buildRewriteProducts(OpPassManager &pm) const override {
    pm.addPass(createCpuMultiplyBytes());
    // After those whose rows are small integers, too.
    pm.addPass(createCpuKeepSmallWeights());
  }

  void buildPrepareKernels(OpPassManager &pm) const override {
    pm.addPass(createCpuSplitGathers());
    if (winograd != 0)
      pm.addPass(createCpuWinograd({winograd}));
    pm.addPass(createCpuPadWindows());
    pm.addPass(createCpuSwapOperands());
    pm.addPass(createCpuPackContracts());
    pm.addPass(createKernelReadPackedRows());
    pm.addPass(createCpuPackOperands());
    pm.addPass(createCpuViewWords());
  }

  void buildScheduleKernels(OpPassManager &pm) const override {
    pm.addPass(createCpuSetTarget({getHost().name, getHost().tuning}));
    pm.addNestedPass<kernel::FuncOp>(createCpuChooseSchedule());
  }

  SmallVector<kernel::ScheduleAttrInterface>
  enumerateSchedules(kernel::FuncOp kernel) const override {
    return cpu::enumerateSchedules(kernel, getHost());
  }

  SmallVector<Attribute> enumerateLayouts(kernel::ContractOp contract) const override {
    return cpu::enumerateLayouts(contract, getHost());
  }

  void setLayout(kernel::ContractOp contract, Attribute layout) const override {
    contract->setAttr(layoutAttrName, layout);
  }

  bool usesTiles(ModuleOp module) const override {
    return llvm::any_of(module.getOps<kernel::FuncOp>(), [](kernel::FuncOp kernel) {
      auto schedule = dyn_cast_or_null<ContractAttr>(kernel.getScheduleAttr());
      return schedule && schedule.getUnit() == ProductUnit::Tiles;
    });
  }

  void shareLayouts(ArrayRef<ModuleOp> modules) const override {
    cpu::sharePanels(modules, getHost());
  }

  llvm::Expected<Objects> compileKernels(ModuleOp module,
                                         const CodeOptions &options) const override {
    return cpu::compileKernels(module, getHost(), options.object);
  }

private:
  int64_t winograd;
};

} // namespace

void cpu::registerCPUTarget() {
  TargetRegistration target;
  target.name = "cpu";
  target.summary = "the CPU alone";
  target.emits = {"llvm", "obj"};
  target.create = [](StringRef text,
                     const codegen::CPUInfo &cpu) -> llvm::Expected<std::unique_ptr<Target>> {
    llvm::Expected<std::unique_ptr<Options>> options = parseTargetOptions<Options>(text);
    if (!options)
      return options.takeError();
    llvm::Expected<codegen::CPUInfo> tuned = codegen::CPUInfo::get(cpu.name, (*options)->tune);
    if (!tuned)
      return tuned.takeError();
    int64_t winograd = (*options)->winograd;
    if (winograd != 0 && winograd != 2 && winograd != 4)
      return llvm::createStringError("winograd is 0, 2 or 4, not " + std::to_string(winograd));
    return std::make_unique<CPUTarget>(std::move(*tuned), winograd);
  };
  target.registerDialects = [](DialectRegistry &registry) {
    codegen::registerTranslations(registry);
    registry.insert<CPUDialect>();
  };
  target.registerPasses = [] {
    registerCPUPasses();
    registerCPUPipelines();
  };
  registerTarget(std::move(target));
}
