// Masked stores of a single lane as stores of its element.
#ifndef KILN_LIB_CODEGEN_STORESINGLELANES_H
#define KILN_LIB_CODEGEN_STORESINGLELANES_H

#include "llvm/IR/Module.h"

namespace kiln::codegen {

/// Stores the element where a constant mask has one lane. LLVM 22 does so itself, after it has
/// joined the store with a truncation of its value: it then stores the element before that, which
/// has more bytes.
void storeSingleLanes(llvm::Module &module);

} // namespace kiln::codegen

#endif // KILN_LIB_CODEGEN_STORESINGLELANES_H
