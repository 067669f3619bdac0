// The CPU target's stage, from kernels to functions in the LLVM dialect.
#include "kiln/Codegen/CPUInfo.h"
#include "kiln/Codegen/Passes.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/Error.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

void cpu::buildLowerKernelsPipeline(OpPassManager &pm, const CPUInfo &target) {
  pm.addPass(createCpuEmitKernels());
  pm.addNestedPass<LLVM::LLVMFuncOp>(createCodegenRoundInRange());
  // Polynomials have many constants and common parts.
  pm.addNestedPass<LLVM::LLVMFuncOp>(createCodegenExpandMath({target.avx512, /*gpu=*/false}));
  pm.addNestedPass<LLVM::LLVMFuncOp>(createCSEPass());
  pm.addNestedPass<LLVM::LLVMFuncOp>(createCodegenConvertToLLVM());
  // Last, when every value of a small type is there.
  pm.addNestedPass<LLVM::LLVMFuncOp>(createCodegenExpandSmallFloats());
}

namespace {
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<std::string> cpu{*this, "cpu", llvm::cl::desc("LLVM's name of the CPU, or `native`"),
                          llvm::cl::init("native")};
  Option<std::string> tune{*this, "tune", llvm::cl::desc("numbers in the place of the CPU's"),
                           llvm::cl::init("")};
};
} // namespace

void cpu::registerCPUPipelines() {
  PassPipelineRegistration<PipelineOptions>(
      "cpu-lower-kernels", "Kernels to functions in the LLVM dialect",
      [](OpPassManager &pm, const PipelineOptions &options) {
        llvm::Expected<CPUInfo> target = CPUInfo::get(options.cpu, options.tune);
        if (!target)
          llvm::reportFatalUsageError(target.takeError());
        pm.addPass(createCpuSetTarget({target->name, target->tuning}));
        buildSimplifyBodiesPipeline(pm);
        pm.addNestedPass<kernel::FuncOp>(createCpuChooseSchedule());
        buildLowerKernelsPipeline(pm, *target);
      });
}
