// Operators on the representation of numbers: exponents, neighbours, common divisors.
#include "Core/Bits.h"
#include "Pointwise/ComplexFunctions.h"
#include "Special/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

//===-- Bits of floats ------------------------------------------------------------------------===//

namespace {
/// The layout of f32 or f64.
struct Layout {
  unsigned width, mantissa;
  int64_t bias;
  explicit Layout(Type type)
      : width(type.getIntOrFloatBitWidth()), mantissa(width == 64 ? 52 : 23),
        bias(width == 64 ? 1023 : 127) {}
};
} // namespace

/// x = mantissa * 2^exponent with 0.5 <= |mantissa| < 1; 0 for what has no such mantissa.
static std::pair<Element, Element> splitFloat(Element x) {
  Layout layout(x.type());
  int64_t ones = 2 * layout.bias + 1, shift = layout.mantissa + 1;
  // Denormal numbers are scaled to normal ones.
  Element isSmall = abs(x) < x.constant(std::ldexp(1.0, 1 - layout.bias));
  Element scaled = select(isSmall, x * std::ldexp(1.0, shift), x);
  Element bits = toBits(scaled);
  Element field = bits.constant(ones << layout.mantissa);
  Element exponent = shiftRight(bits & field, bits.constant(int64_t(layout.mantissa)));
  exponent = exponent - select(isSmall, bits.constant(layout.bias - 1 + shift),
                               bits.constant(layout.bias - 1));
  Element mantissa =
      fromBits((bits & ~field) | bits.constant((layout.bias - 1) << layout.mantissa), x.type());
  Element has = (x != x.constant(0)) & ~isNan(x) & ~isInf(x);
  return {select(has, mantissa, x), select(has, exponent, exponent.constant(0))};
}

static LogicalResult lowerFrexp(Call &call) {
  Value self = call.tensor(0);
  Type type = elementType(self);
  if (!isFloat(type))
    return call.refuse("this dtype");
  return call.set(
      call.kernels.map(shapeOf(self), {type, call.resultType(1)}, [&](BodyBuilder &body) {
        auto [mantissa, exponent] = splitFloat(convert(body.broadcast(self), opmath(type)));
        return BodyBuilder::Elements{mantissa, exponent};
      }));
}

/// x * 2^n, with the power rounded to its own dtype first as ATen does.
static LogicalResult lowerLdexp(Call &call) {
  Operand x = call.operand(0), n = call.operand(1);
  Type power = lowering::resultType(call.args.op().getContext(), {n, torch::Scalar(2.0)});
  if (!power)
    return call.refuse("these dtypes");
  Type wide = opmath(call.resultType());
  return call.set(call.kernels.map(call.resultShape(), call.resultType(), [&](BodyBuilder &body) {
    Element exponent = call.read(body, n, opmath(power));
    Element scale = isComplex(power) ? complexes::pow(body.constant(power, 2.0), exponent)
                                     : convert(apply<math::Exp2Op>(exponent), power);
    return call.read(body, x, wide) * convert(scale, wide);
  }));
}

/// The next number after `a` towards `b`.
static LogicalResult lowerNextafter(Call &call) {
  Type type = elementType(call.tensor(0));
  if (elementType(call.tensor(1)) != type ||
      !(type.isF32() || type.isF64() || type.isBF16() || type.isF16()))
    return call.refuse("these dtypes");
  // Narrow types are computed with as f32, of which bf16 is the upper half. Neighbours of f16 are
  // 13 bits apart there but for the numbers below its normal ones, which are multiples of 2^-24.
  int64_t unit = type.isBF16() ? 0x10000 : type.isF16() ? 0x2000 : 1;
  return call.pointwise({call.tensor(0), call.tensor(1)}, [&](BodyBuilder &, Elements x) {
    Element a = x[0], b = x[1], zero = a.constant(0), bits = toBits(a);
    Element step = bits.constant(unit);
    Element grows = (a < b) & (a > zero) | (a > b) & (a < zero);
    Element next = fromBits(select(grows, bits + step, bits - step), a.type());
    Element least = fromBits(step, a.type());
    if (type.isF16()) {
      least = a.constant(0x1p-24);
      Element size = abs(a);
      // The numbers next to 2^-14 from below are as far apart as those below it.
      Element isSmall = (size < a.constant(0x1p-14)) | ((size == a.constant(0x1p-14)) & ~grows);
      Element away = copysign(least, b - a);
      next = select(isSmall, a + away, next);
      Element isMost = (size == a.constant(65504.0)) & grows;
      next = select(isMost, copysign(a.constant(infinity), a), next);
      next = select(isInf(a), copysign(a.constant(65504.0), a), next);
    }
    least = copysign(least, b);
    Element result = select(a == b, b, select(a == zero, least, next));
    return select(isNan(a) | isNan(b), a + b, result);
  });
}

/// In double precision, whatever the dtypes.
static LogicalResult lowerFloatPower(Call &call) {
  Type type = call.resultType();
  return call.pointwise({call.operand(0), call.operand(1)}, type, [&](BodyBuilder &, Elements x) {
    return isComplex(type) ? complexes::pow(x[0], x[1]) : pow(x[0], x[1]);
  });
}

//===-- Common divisors -----------------------------------------------------------------------===//

/// Euclid's algorithm, which takes at most 92 steps in 64 bits.
static Element greatestDivisor(Element a, Element b) {
  constexpr int64_t mostSteps = 96;
  auto step = [](ArrayRef<Element> x) {
    Element zero = x[0].constant(0), isDone = x[0] == zero;
    Element rest = fmod(x[1], select(isDone, x[0].constant(1), x[0]));
    Element next = select(isDone, zero, rest);
    return std::pair(next != zero, SmallVector<Element>{next, select(isDone, x[1], x[0])});
  };
  auto magnitude = [](Element x) { return isUnsigned(x.type()) ? x : abs(x); };
  return iterate(mostSteps, {magnitude(a), magnitude(b)}, step)[1];
}

static LogicalResult divisors(Call &call, bool multiple) {
  return call.pointwise({call.operand(0), call.operand(1)}, [&](BodyBuilder &, Elements x) {
    if (!isInt(x[0].type())) {
      call.kernels.fail("this dtype");
      return x[0];
    }
    Element divisor = greatestDivisor(x[0], x[1]);
    if (!multiple)
      return divisor;
    Element zero = divisor.constant(0), isZero = divisor == zero;
    Element quotient = truncDiv(x[0], select(isZero, divisor.constant(1), divisor));
    if (isUnsigned(divisor.type()))
      return select(isZero, zero, quotient * x[1]);
    // In at least 32 bits, as C++ multiplies: a multiple that does not fit in fewer bits keeps the
    // sign that its lowest bits have.
    unsigned width = std::max(32u, divisor.type().getIntOrFloatBitWidth());
    Type wide = divisor.b().getIntegerType(width);
    Element product = abs(convert(quotient, wide) * convert(x[1], wide));
    return select(isZero, zero, convert(product, divisor.type()));
  });
}

void lowering::registerFloatParts(LoweringTable &table) {
  table.add("aten.frexp.Tensor", lowerFrexp);
  table.add("aten.ldexp.Tensor", lowerLdexp);
  table.add("aten.nextafter.default", lowerNextafter);
  table.add({"aten.float_power.Tensor_Tensor", "aten.float_power.Tensor_Scalar",
             "aten.float_power.Scalar"},
            lowerFloatPower);
  table.add("aten.gcd.default", [](Call &call) { return divisors(call, false); });
  table.add("aten.lcm.default", [](Call &call) { return divisors(call, true); });
}
