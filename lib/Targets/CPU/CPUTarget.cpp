// The target `cpu`.
#include "kiln/Targets/CPU/CPU.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Targets/Target.h"
#include "kiln/Transforms/Passes.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

namespace {

struct Options : PassPipelineOptions<Options> {};

class CPUTarget : public Target {
public:
  explicit CPUTarget(codegen::CPUInfo cpu) : Target("cpu", std::move(cpu)) {}

  void buildPrepareKernels(OpPassManager &pm) const override {
    int64_t vectorBytes = getHost().vectorBytes;
    pm.addPass(createCpuPadWindows({vectorBytes}));
    KernelPackContractsOptions pack;
    pack.vectorBytes = vectorBytes;
    pack.registers = getHost().numVectorRegisters;
    pm.addPass(createKernelPackContracts(pack));
    pm.addPass(createKernelReadPackedRows());
    pm.addPass(createCpuPackOperands({vectorBytes}));
  }

  void buildScheduleKernels(OpPassManager &pm) const override {
    pm.addNestedPass<kernel::FuncOp>(createCpuChooseSchedule({getHost().name}));
  }

  llvm::Expected<Objects> compileKernels(ModuleOp module,
                                         const CodeOptions &options) const override {
    return cpu::compileKernels(module, getHost(), options.object);
  }
};

} // namespace

void cpu::registerCPUTarget() {
  TargetRegistration target;
  target.name = "cpu";
  target.summary = "the CPU alone";
  target.emits = {"llvm", "obj"};
  target.create = [](StringRef text,
                     codegen::CPUInfo cpu) -> llvm::Expected<std::unique_ptr<Target>> {
    llvm::Expected<std::unique_ptr<Options>> options = parseTargetOptions<Options>(text);
    if (!options)
      return options.takeError();
    return std::make_unique<CPUTarget>(std::move(cpu));
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
