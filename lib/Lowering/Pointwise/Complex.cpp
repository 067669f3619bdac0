// Complex numbers and their parts.
#include "Pointwise/ComplexFunctions.h"
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

static LogicalResult lowerReal(Call &call) {
  Value self = call.tensor(0);
  if (!isComplex(elementType(self)))
    return call.set(self);
  return call.pointwise({self}, [](BodyBuilder &, Elements x) { return real(x[0]); });
}

static LogicalResult lowerImag(Call &call) {
  if (!isComplex(elementType(call.tensor(0))))
    return call.refuse("this dtype");
  return call.pointwise({call.tensor(0)}, [](BodyBuilder &, Elements x) { return imag(x[0]); });
}

static LogicalResult lowerConj(Call &call) {
  Value self = call.tensor(0);
  if (!isComplex(elementType(self)))
    return call.set(self);
  return call.pointwise(
      {self}, [](BodyBuilder &, Elements x) { return makeComplex(real(x[0]), -imag(x[0])); });
}

/// [.., 2] of real numbers.
static LogicalResult lowerViewAsReal(Call &call) {
  Value self = call.tensor(0);
  if (!isComplex(elementType(self)))
    return call.refuse("this dtype");
  Exprs shape = shapeOf(self);
  size_t rank = shape.size();
  shape.push_back(2);
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Element x = body.read(self, body.dims(0, rank));
    Element second = body.index(body.dim(rank)) == body.constant(body.b().getI64Type(), 1);
    return select(second, imag(x), real(x));
  }));
}

static LogicalResult lowerViewAsComplex(Call &call) {
  Value self = call.tensor(0);
  Exprs shape = shapeOf(self);
  if (shape.empty() || !shape.back().isConstant(2) || !isFloat(elementType(self)))
    return call.refuse("a last dim other than of two real numbers");
  shape.pop_back();
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Exprs re = body.ownDims(), im = re;
    re.push_back(0);
    im.push_back(1);
    return makeComplex(body.read(self, re), body.read(self, im));
  }));
}

static LogicalResult lowerMakeComplex(Call &call) {
  if (elementType(call.tensor(0)) != elementType(call.tensor(1)))
    return call.refuse("parts of different dtypes");
  return call.pointwise({call.tensor(0), call.tensor(1)},
                        [](BodyBuilder &, Elements x) { return makeComplex(x[0], x[1]); });
}

static LogicalResult lowerPolar(Call &call) { // abs * (cos(angle) + i sin(angle))
  return call.pointwise({call.tensor(0), call.tensor(1)}, [](BodyBuilder &, Elements x) {
    return makeComplex(x[0] * apply<math::CosOp>(x[1]), x[0] * apply<math::SinOp>(x[1]));
  });
}

/// atan2(imag, real); of real numbers pi where negative, and NaN stays.
static LogicalResult lowerAngle(Call &call) {
  Type type = elementType(call.tensor(0));
  if (isComplex(type))
    return call.pointwise({call.tensor(0)},
                          [](BodyBuilder &, Elements x) { return atan2(imag(x[0]), real(x[0])); });
  return call.pointwise({call.tensor(0)}, toFloat(type), [](BodyBuilder &, Elements x) {
    Element zero = x[0].constant(0), pi = x[0].constant(3.14159265358979323846);
    return select(isNan(x[0]), x[0], select(x[0] < zero, pi, zero));
  });
}

static LogicalResult lowerIsReal(Call &call) { // without an imaginary part
  return call.pointwise({call.tensor(0)}, [](BodyBuilder &body, Elements x) {
    if (!isComplex(x[0].type()))
      return body.constant(body.b().getI1Type(), 1);
    Element part = imag(x[0]);
    return part == part.constant(0);
  });
}

void lowering::registerComplex(LoweringTable &table) {
  table.add("aten.real.default", lowerReal);
  table.add("aten.imag.default", lowerImag);
  table.add({"aten.conj.default", "aten._conj.default", "aten.conj_physical.default",
             "aten._conj_physical.default"},
            lowerConj);
  table.add({"aten.view_as_real.default", "aten.view_as_real_copy.default"}, lowerViewAsReal);
  table.add({"aten.view_as_complex.default", "aten.view_as_complex_copy.default"},
            lowerViewAsComplex);
  table.add("aten.complex.default", lowerMakeComplex);
  table.add("aten.polar.default", lowerPolar);
  table.add("aten.angle.default", lowerAngle);
  table.add("aten.isreal.default", lowerIsReal);
}
