// Passes over the functions that kernels become; declared in Passes.td.
#ifndef KILN_CODEGEN_PASSES_H
#define KILN_CODEGEN_PASSES_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace kiln::codegen {

#define GEN_PASS_DECL
#include "kiln/Codegen/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kiln/Codegen/Passes.h.inc"

} // namespace kiln::codegen

#endif // KILN_CODEGEN_PASSES_H
