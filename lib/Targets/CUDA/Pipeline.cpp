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

void cuda::buildLowerKernelsPipeline(OpPassManager &pm, ArrayRef<unsigned> variants) {
  if (!variants.empty())
    pm.addPass(createCudaSpecializeKernels({llvm::to_vector(variants)}));
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
                               codegen::buildSimplifyBodiesPipeline(pm);
                               pm.addPass(createCudaChooseSchedule());
                               buildLowerKernelsPipeline(pm, hopper);
                             });
}
