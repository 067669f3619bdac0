// What is known of scans beside their regions.
#ifndef KILN_DIALECT_KERNEL_SCAN_H
#define KILN_DIALECT_KERNEL_SCAN_H

#include "llvm/ADT/StringRef.h"

namespace kiln::kernel {

/// The attribute of a kernel.scan whose `combine` is associative although it is no single
/// operation: what several threads have of a line may be combined.
constexpr llvm::StringLiteral associativeAttrName = "associative";

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_SCAN_H
