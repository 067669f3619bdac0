// Conversions of 8-bit floating-point numbers, for `convert`.
#ifndef KILN_DIALECT_KERNEL_BUILDER_FLOAT8_H
#define KILN_DIALECT_KERNEL_BUILDER_FLOAT8_H

#include "kiln/Dialect/Kernel/Builder/Element.h"

namespace kiln::kernel {

/// A format whose elements are bits in regions.
bool isFloat8(mlir::Type type);
/// From f32, and back to it.
Element encodeFloat8(Element x, mlir::Type type);
Element decodeFloat8(Element x);
/// As f16, of which each of them is a number.
Element decodeFloat8ToHalf(Element x);

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_BUILDER_FLOAT8_H
