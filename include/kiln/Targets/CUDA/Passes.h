// Passes from kernels to code of a GPU in the LLVM dialect; declared in Passes.td.
#ifndef KILN_TARGETS_CUDA_PASSES_H
#define KILN_TARGETS_CUDA_PASSES_H

#include "kiln/Codegen/CodegenDialect.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Targets/CUDA/CUDADialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace kiln::cuda {

#define GEN_PASS_DECL
#include "kiln/Targets/CUDA/Passes.h.inc"

/// Scheduled kernels to functions in the LLVM and NVVM dialects, with variants for these
/// architectures.
void buildLowerKernelsPipeline(mlir::OpPassManager &pm, llvm::ArrayRef<unsigned> variants);

/// `cuda-lower-kernels`, for kiln-opt: the above, with schedules for kernels that have none.
void registerCUDAPipelines();

} // namespace kiln::cuda

#endif // KILN_TARGETS_CUDA_PASSES_H
