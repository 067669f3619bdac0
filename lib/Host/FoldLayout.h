// Layouts that folds make of a parameter, by which its rows can be replaced one by one.
#ifndef KILN_LIB_HOST_FOLDLAYOUT_H
#define KILN_LIB_HOST_FOLDLAYOUT_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::host {

/// The numbers of kiln_rt_fold.layout; empty: the kernel does more than to place each element of
/// its one operand in its one result, or places them in another way.
llvm::SmallVector<int64_t> getFoldLayout(kernel::FuncOp kernel);

} // namespace kiln::host

#endif // KILN_LIB_HOST_FOLDLAYOUT_H
