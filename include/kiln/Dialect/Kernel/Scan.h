// What is known of scans beside their regions.
#ifndef KILN_DIALECT_KERNEL_SCAN_H
#define KILN_DIALECT_KERNEL_SCAN_H

#include "llvm/ADT/StringRef.h"

namespace kiln::kernel {

/// The attribute of a kernel.scan whose `combine` is associative although it is no single
/// operation: what several threads have of a line may be combined.
constexpr llvm::StringLiteral associativeAttrName = "associative";

/// The attribute of a kernel.scan of which each part, so many elements (an expression) of a line,
/// starts on its own, from what `init` is at the part's first element: only then may `init` depend
/// on the dim that is scanned.
constexpr llvm::StringLiteral partAttrName = "part";

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_SCAN_H
