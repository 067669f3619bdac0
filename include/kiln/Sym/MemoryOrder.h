// The order in which the dims of a strided tensor lie in memory.
#ifndef KILN_SYM_MEMORYORDER_H
#define KILN_SYM_MEMORYORDER_H

#include "kiln/Sym/Assumptions.h"

namespace kiln::sym {

/// The dims from the outermost in memory to the innermost, those of size 1 anywhere, of a tensor that fills a
/// block of memory without gaps or overlaps; nullopt for others, and where that is not known. Strides are in elements.
std::optional<llvm::SmallVector<int64_t>>
getMemoryOrder(llvm::ArrayRef<Expr> shape, llvm::ArrayRef<Expr> strides, const Assumptions &known);

} // namespace kiln::sym

#endif // KILN_SYM_MEMORYORDER_H
