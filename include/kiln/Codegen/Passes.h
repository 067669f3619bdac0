// Passes over the functions that kernels become; declared in Passes.td.
#ifndef KILN_CODEGEN_PASSES_H
#define KILN_CODEGEN_PASSES_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace kiln::codegen {

#define GEN_PASS_DECL
#include "kiln/Codegen/Passes.h.inc"

/// Bodies of kernels as planners want them. Runs once, before any target plans: planners look at
/// the same accesses as emitters, so nothing may change bodies afterwards.
void buildSimplifyBodiesPipeline(mlir::OpPassManager &pm);

} // namespace kiln::codegen

#endif // KILN_CODEGEN_PASSES_H
