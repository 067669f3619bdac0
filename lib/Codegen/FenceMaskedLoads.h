#ifndef KILN_LIB_CODEGEN_FENCEMASKEDLOADS_H
#define KILN_LIB_CODEGEN_FENCEMASKEDLOADS_H

#include "llvm/IR/Module.h"

namespace kiln::codegen {

/// Keeps masked loads apart from arithmetic under the same mask, for CPUs with mask registers. LLVM
/// 22 makes one instruction of the two, and where it takes that apart again, since a register that
/// it would overwrite is needed later, the load has lost its mask: it reads all lanes, of memory
/// that may not be there.
void fenceMaskedLoads(llvm::Module &module);

} // namespace kiln::codegen

#endif // KILN_LIB_CODEGEN_FENCEMASKEDLOADS_H
