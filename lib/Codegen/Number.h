// Floating-point constants of bodies.
#ifndef KILN_LIB_CODEGEN_NUMBER_H
#define KILN_LIB_CODEGEN_NUMBER_H

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include <optional>

namespace kiln::codegen {

/// The number that `value`, or each element of it, is.
inline std::optional<double> getNumber(mlir::Value value) {
  if (auto broadcast = value.getDefiningOp<mlir::vector::BroadcastOp>())
    value = broadcast.getSource();
  mlir::Attribute attribute;
  if (!mlir::matchPattern(value, mlir::m_Constant(&attribute)))
    return std::nullopt;
  if (auto splat = mlir::dyn_cast<mlir::SplatElementsAttr>(attribute))
    attribute = splat.getSplatValue<mlir::Attribute>();
  auto number = mlir::dyn_cast<mlir::FloatAttr>(attribute);
  return number ? std::optional(number.getValueAsDouble()) : std::nullopt;
}

} // namespace kiln::codegen

#endif // KILN_LIB_CODEGEN_NUMBER_H
