// Calls in the place of instructions for tiles.
#ifndef KILN_LIB_CODEGEN_EMULATETILES_H
#define KILN_LIB_CODEGEN_EMULATETILES_H

#include "llvm/IR/Module.h"

namespace kiln::codegen {

/// The names of functions that do as instructions for tiles begin so: `kiln_tile_tdpbusd`.
inline constexpr llvm::StringLiteral tileFunctions = "kiln_tile_";

/// Every instruction for tiles becomes a call of the function of its name, with the same operands.
void emulateTiles(llvm::Module &module);

} // namespace kiln::codegen

#endif // KILN_LIB_CODEGEN_EMULATETILES_H
