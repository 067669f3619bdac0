// Conversions of 8-bit floating-point numbers, for `convert`.
#ifndef KILN_LIB_LOWERING_FLOAT8_H
#define KILN_LIB_LOWERING_FLOAT8_H

#include "kiln/Lowering/Element.h"

namespace kiln::lowering {

/// A format whose elements are bits in regions.
bool isFloat8(mlir::Type type);
/// From f32, and back to it.
Element encodeFloat8(Element x, mlir::Type type);
Element decodeFloat8(Element x);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_FLOAT8_H
