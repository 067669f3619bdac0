// The CUDA target's stage, from kernels to functions in the LLVM and NVVM dialects.
#include "kiln/Codegen/Passes.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

void cuda::buildScheduleKernelsPipeline(OpPassManager &pm, bool tf32) {
  // A reduction that does not depend on the one around it leaves it, and meets its equals.
  pm.addPass(createKernelHoistInvariants());
  pm.addNestedPass<kernel::FuncOp>(createCSEPass());
  // The planner looks at the same accesses as the emitter: nothing may change them in between.
  pm.addPass(createCudaChooseSchedule({tf32}));
}

void cuda::buildLowerKernelsPipeline(OpPassManager &pm, bool hopper) {
  if (hopper)
    pm.addPass(createCudaSpecializeKernels());
  pm.addPass(createCudaEmitKernels());
  // The CPU's functions are a GPU's as well: without calls, and to about the same precision.
  pm.addNestedPass<LLVM::LLVMFuncOp>(
      codegen::createCodegenExpandMath({/*avx512=*/false, /*gpu=*/true}));
  pm.addNestedPass<LLVM::LLVMFuncOp>(createCSEPass());
  pm.addNestedPass<LLVM::LLVMFuncOp>(codegen::createCodegenConvertToLLVM());
}

void cuda::registerCUDAPipelines() {
  PassPipelineRegistration<>("cuda-lower-kernels",
                             "Kernels to functions in the LLVM and NVVM dialects",
                             [](OpPassManager &pm) {
                               buildScheduleKernelsPipeline(pm, /*tf32=*/false);
                               buildLowerKernelsPipeline(pm, /*hopper=*/true);
                             });
}
