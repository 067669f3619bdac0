// Dims of a map's body, and how large what they count may be.
#ifndef KILN_TRANSFORMS_KERNEL_MAPDIMS_H
#define KILN_TRANSFORMS_KERNEL_MAPDIMS_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "llvm/ADT/SmallBitVector.h"

namespace kiln::kernel {

/// The dims of `map`, without those of one element, that each op directly in its body depends on, by what it reads or by other
/// ops there.
llvm::DenseMap<mlir::Operation *, llvm::SmallBitVector> findUsedDims(MapOp map);

/// Elements of a tensor of `sizes`, with 64 for a symbol; INT64_MAX if they are too many to count.
int64_t estimateElements(llvm::ArrayRef<sym::Expr> sizes);

} // namespace kiln::kernel

#endif // KILN_TRANSFORMS_KERNEL_MAPDIMS_H
