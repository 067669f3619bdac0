// The dtype in which PyTorch computes on operands of several dtypes.
#include "kiln/Lowering/Promotion.h"
#include "kiln/Dialect/Kernel/Builder/Element.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::lowering;

/// f64 and f32 hold everything below them; of the others only equal ones meet without f32.
static Type promoteFloats(FloatType a, FloatType b) {
  if (a == b)
    return a;
  if (a.getWidth() < 16 || b.getWidth() < 16)
    return {}; // float8 does not take part in promotion
  if (a.getWidth() == b.getWidth())
    return Float32Type::get(a.getContext()); // f16 and bf16
  return a.getWidth() > b.getWidth() ? a : b;
}

static Type promoteInts(IntegerType a, IntegerType b) {
  if (a == b || isBool(b))
    return a;
  if (isBool(a))
    return b;
  if (isUnsigned(a) == isUnsigned(b))
    return a.getWidth() > b.getWidth() ? a : b;
  IntegerType plain = isUnsigned(a) ? b : a, positive = isUnsigned(a) ? a : b;
  if (plain.getWidth() > positive.getWidth())
    return plain;
  if (positive.getWidth() > 8)
    return {}; // uint16 and wider promote with no signed type
  return IntegerType::get(a.getContext(), 16);
}

Type lowering::promoteTypes(Type a, Type b) {
  if (a == b)
    return a;
  if (isComplex(a) || isComplex(b)) {
    auto part = [](Type type) -> Type {
      auto complexType = dyn_cast<ComplexType>(type);
      return complexType ? complexType.getElementType() : type;
    };
    Type x = part(a), y = part(b);
    if (!isFloat(x))
      return b;
    if (!isFloat(y))
      return a;
    Type both = promoteTypes(x, y);
    return both ? ComplexType::get(both) : Type();
  }
  if (isFloat(a) && isFloat(b))
    return promoteFloats(cast<FloatType>(a), cast<FloatType>(b));
  if (isFloat(a))
    return a;
  if (isFloat(b))
    return b;
  return promoteInts(cast<IntegerType>(a), cast<IntegerType>(b));
}

/// The type of a group and one of lower priority, which adds only its category (c10's
/// combine_categories). A null type is a group without operands.
static Type combine(Type higher, Type lower) {
  if (!higher || !lower)
    return higher ? higher : lower;
  if (isComplex(higher))
    return higher;
  if (isFloat(higher)) // c10 has no complex numbers of bf16, and takes those of f32 for its range
    return isComplex(lower) ? ComplexType::get(higher.isBF16() ? opmath(higher) : higher) : higher;
  if (isBool(higher) || isFloat(lower) || isComplex(lower))
    return promoteTypes(higher, lower);
  return higher;
}

Type lowering::resultType(MLIRContext *context, ArrayRef<Operand> operands, Type other) {
  Type withDims = other, zeroDim, number;
  bool promotes = true;
  auto add = [&](Type &group, Type type) {
    group = group ? promoteTypes(group, type) : type;
    promotes &= group != Type();
  };
  Type f32 = Float32Type::get(context);
  for (const Operand &operand : operands) {
    if (operand.tensor) {
      auto tensor = cast<RankedTensorType>(operand.tensor.getType());
      add(tensor.getRank() > 0 ? withDims : zeroDim, tensor.getElementType());
      continue;
    }
    switch (torch::kindOf(*operand.number)) {
    case torch::NumberKind::Bool:
      add(number, IntegerType::get(context, 1));
      break;
    case torch::NumberKind::Int:
      add(number, IntegerType::get(context, 64));
      break;
    case torch::NumberKind::Float:
      add(number, f32);
      break;
    case torch::NumberKind::Complex:
      add(number, ComplexType::get(f32));
      break;
    }
  }
  if (!promotes)
    return {};
  Type weaker = combine(zeroDim, number);
  if (!weaker && (zeroDim || number))
    return {};
  return combine(withDims, weaker);
}

Type lowering::toFloat(Type type) {
  return isFloat(type) || isComplex(type) ? type : Float32Type::get(type.getContext());
}
