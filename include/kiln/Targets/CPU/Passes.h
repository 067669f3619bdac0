// Passes from kernels to the LLVM dialect; declared in Passes.td.
#ifndef KILN_TARGETS_CPU_PASSES_H
#define KILN_TARGETS_CPU_PASSES_H

#include "kiln/Codegen/CPUInfo.h"
#include "kiln/Targets/CPU/CPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace kiln::cpu {

class FoldCache;

#define GEN_PASS_DECL
#include "kiln/Targets/CPU/Passes.h.inc"

/// With results that other programs of the context have in common with this one; null: there are none.
std::unique_ptr<mlir::Pass> createCpuFoldConstants(const CpuFoldConstantsOptions &options,
                                                   FoldCache *cache);

/// Scheduled kernels to functions in the LLVM dialect.
void buildLowerKernelsPipeline(mlir::OpPassManager &pm, const codegen::CPUInfo &target);

/// `cpu-lower-kernels`, for kiln-opt: the above, with schedules for kernels that have none.
void registerCPUPipelines();

} // namespace kiln::cpu

#endif // KILN_TARGETS_CPU_PASSES_H
