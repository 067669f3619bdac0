// Passes that run programs of the kernel dialect; declared in Passes.td.
#ifndef KILN_REFERENCE_PASSES_H
#define KILN_REFERENCE_PASSES_H

#include "mlir/Pass/Pass.h"
#include <memory>

namespace kiln::reference {

#define GEN_PASS_DECL
#include "kiln/Reference/Passes.h.inc"

} // namespace kiln::reference

#endif // KILN_REFERENCE_PASSES_H
