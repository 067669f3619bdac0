//===- Bits.h - The representation of elements --------------------*- C++ -*-===//
#ifndef KILN_LIB_LOWERING_CORE_BITS_H
#define KILN_LIB_LOWERING_CORE_BITS_H

#include "kiln/Dialect/Kernel/Builder/Float8.h"
#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

/// The bits of an element, as an integer of its width; bool takes a byte.
inline Element toBits(Element x) {
  if (isBool(x.type()))
    return convert(x, x.b().getI8Type());
  if (isInt(x.type()))
    return x;
  if (isFloat8(x.type()))
    return x.make(x.value(), x.b().getI8Type());
  mlir::Type bits = x.b().getIntegerType(x.type().getIntOrFloatBitWidth());
  return x.make(mlir::arith::BitcastOp::create(x.b(), bits, x.value()), bits);
}

/// The element of `type` that has these bits.
inline Element fromBits(Element bits, mlir::Type type) {
  if (isBool(type))
    return isTrue(bits);
  if (isInt(type) || isFloat8(type))
    return bits.make(bits.value(), type);
  return bits.make(mlir::arith::BitcastOp::create(bits.b(), type, bits.value()), type);
}

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_CORE_BITS_H
