// The layouts in which PyTorch packs weights of four bits.
#ifndef KILN_LOWERING_INT4_H
#define KILN_LOWERING_INT4_H

#include "llvm/ADT/StringRef.h"

namespace kiln::lowering {

/// Attribute of a module: the vectors ("avx512", "avx2" or "none") of the CPU that has packed the
/// program's int4 weights, which decide their layout; "avx512" if there is none. The weights
/// themselves do not tell.
inline constexpr llvm::StringLiteral int4LayoutAttrName = "torch.int4_layout";

} // namespace kiln::lowering

#endif // KILN_LOWERING_INT4_H
