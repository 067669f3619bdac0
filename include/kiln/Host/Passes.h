// Passes over the host program; declared in Passes.td.
#ifndef KILN_HOST_PASSES_H
#define KILN_HOST_PASSES_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace kiln::host {

#define GEN_PASS_DECL
#include "kiln/Host/Passes.h.inc"

} // namespace kiln::host

#endif // KILN_HOST_PASSES_H
