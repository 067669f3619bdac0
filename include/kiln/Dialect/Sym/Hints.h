// Sizes of the example that a program was exported with.
#ifndef KILN_DIALECT_SYM_HINTS_H
#define KILN_DIALECT_SYM_HINTS_H

#include "llvm/ADT/StringRef.h"

namespace kiln::sym {

/// On a module: for some symbols the value that each had, `{s0 = 48}`.
inline constexpr llvm::StringLiteral hintsAttrName = "sym.hints";

} // namespace kiln::sym

#endif // KILN_DIALECT_SYM_HINTS_H
