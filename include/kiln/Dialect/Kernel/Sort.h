// Facts about sorts beside their regions.
#ifndef KILN_DIALECT_KERNEL_SORT_H
#define KILN_DIALECT_KERNEL_SORT_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::kernel {

/// The attribute of a kernel.sort of which only so many positions (an i64) at the front of each row
/// are read: what the others are is anything.
constexpr llvm::StringLiteral firstAttrName = "first";
/// More of them are not worth picking out.
constexpr int64_t maxFirst = 512;

/// How many that are; nullopt: all.
inline std::optional<int64_t> getFirst(SortOp sort) {
  auto first = sort->getAttrOfType<mlir::IntegerAttr>(firstAttrName);
  if (!first || first.getInt() < 1 || first.getInt() > maxFirst)
    return std::nullopt;
  return first.getInt();
}

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_SORT_H
