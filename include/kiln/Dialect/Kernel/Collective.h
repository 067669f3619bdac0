// Collectives: the library that runs them, and how many processes a program is for.
#ifndef KILN_DIALECT_KERNEL_COLLECTIVE_H
#define KILN_DIALECT_KERNEL_COLLECTIVE_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::kernel {

/// The library of wrapper.extern_call that runs collectives (runtime/collectives).
inline constexpr llvm::StringLiteral collectivesLibrary = "collectives";

/// Attribute of a module: the processes of a group whose number the program does not say.
inline constexpr llvm::StringLiteral ranksAttrName = "torch.ranks";

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_COLLECTIVE_H
