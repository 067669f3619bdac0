// Element-wise arithmetic.
#include "Pointwise/ComplexFunctions.h"
#include "Special/Functions.h"
#include <numbers>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

//===-- Addition and multiplication -----------------------------------------------------------===//

/// ATen adds and scales complex numbers in their own type: those with parts of half precision are
/// rounded after each step.
static Element inOwnType(Call &call, Element x) {
  return isComplex(x.type()) && isComplex(call.resultType()) ? convert(x, call.resultType()) : x;
}

/// factor * x, or x where the factor is one. A complex one is multiplied with even so, as ATen
/// does: an infinite part makes the other one NaN.
static Element scale(Call &call, BodyBuilder &body, const torch::Scalar &factor, Element x) {
  if (!isComplex(x.type()) && torch::asDouble(factor) == 1.0)
    return x;
  return call.number(body, factor, x.type()) * x;
}

/// self + alpha * other, with self and other given as argument numbers.
static LogicalResult addScaled(Call &call, unsigned self, unsigned other, bool subtract) {
  torch::Scalar alpha = int64_t(1);
  if (call.args.has("alpha"))
    alpha = call.args.scalar("alpha");
  return call.pointwise({call.operand(self), call.operand(other)},
                        [&](BodyBuilder &body, Elements x) {
                          if (subtract && isBool(x[0].type())) {
                            call.kernels.fail("subtraction of bool");
                            return x[0];
                          }
                          Element first = inOwnType(call, x[0]);
                          Element scaled = scale(call, body, alpha, inOwnType(call, x[1]));
                          return subtract ? first - scaled : first + scaled;
                        });
}

static LogicalResult lowerAdd(Call &call) { return addScaled(call, 0, 1, false); }
static LogicalResult lowerSub(Call &call) { return addScaled(call, 0, 1, true); }
static LogicalResult lowerRsub(Call &call) { return addScaled(call, 1, 0, true); }

static LogicalResult lowerMul(Call &call) {
  return call.pointwise(
      {call.operand(0), call.operand(1)}, [](BodyBuilder &, Elements x) { return x[0] * x[1]; },
      /*exactNumbers=*/true);
}

/// self + value * (a op b)
static LogicalResult lowerAddc(Call &call, bool divide) {
  torch::Scalar value = call.args.scalar("value");
  return call.pointwise({call.tensor(0), call.tensor(1), call.tensor(2)},
                        [&](BodyBuilder &body, Elements x) {
                          Element scaled = scale(call, body, value, inOwnType(call, x[1]));
                          if (divide && isInt(x[0].type())) {
                            call.kernels.fail("integer division with addcdiv");
                            return x[0];
                          }
                          Element other = inOwnType(call, x[2]);
                          return inOwnType(call, x[0]) + (divide ? scaled / other : scaled * other);
                        });
}

/// start + weight * (end - start), from the nearer end (at::native::lerp).
static LogicalResult lowerLerp(Call &call) {
  return call.pointwise(
      {call.tensor(0), call.tensor(1), call.operand(2)},
      [&](BodyBuilder &, Elements x) {
        if (!isFloat(x[0].type()) && !isComplex(x[0].type())) {
          call.kernels.fail("this dtype");
          return x[0];
        }
        Element difference = x[1] - x[0], size = abs(x[2]);
        return select(size < size.constant(0.5), x[0] + x[2] * difference,
                      x[1] - difference * (1.0 - x[2]));
      },
      /*exactNumbers=*/true);
}

//===-- Division ------------------------------------------------------------------------------===//

static LogicalResult lowerTrueDiv(Call &call) {
  SmallVector<Operand> operands = {call.operand(0), call.operand(1)};
  Type common = lowering::resultType(call.args.op().getContext(), operands);
  if (!common)
    return call.refuse("dtypes that do not promote");
  return call.pointwise(
      operands, toFloat(common), [](BodyBuilder &, Elements x) { return x[0] / x[1]; },
      /*exactNumbers=*/true);
}

static Lowering binary(Binary compute, bool exactNumbers = false, bool divides = false) {
  return [=](Call &call) {
    return call.pointwise(
        {call.operand(0), call.operand(1)},
        [&](BodyBuilder &, Elements x) -> Element {
          if (isComplex(x[0].type()) || isBool(x[0].type())) {
            call.kernels.fail("this dtype");
            return x[0];
          }
          return compute(x[0], divides ? call.expectDivisor(x[1]) : x[1]);
        },
        exactNumbers);
  };
}

static Lowering division(Binary compute, bool exactNumbers = false) {
  return binary(compute, exactNumbers, /*divides=*/true);
}

static LogicalResult lowerDivMode(Call &call) {
  if (call.args.isNone("rounding_mode"))
    return lowerTrueDiv(call);
  StringRef mode = call.args.string("rounding_mode");
  if (mode == "floor")
    return division(floorDiv, /*exactNumbers=*/true)(call);
  return mode == "trunc" ? division(truncDiv, /*exactNumbers=*/true)(call)
                         : call.refuse("rounding mode " + mode);
}

//===-- Powers --------------------------------------------------------------------------------===//

/// x to a constant integer power, by squaring.
static Element integerPower(Element x, uint64_t exponent) {
  std::optional<Element> result;
  for (Element square = x;; square = square * square) {
    if (exponent & 1)
      result = result ? *result * square : square;
    exponent >>= 1;
    if (!exponent)
      break;
  }
  return result.value_or(x.constant(1));
}

/// The exponents that ATen computes without pow, with the same expressions.
static Element floatPower(Element x, double exponent, Element exponentElement) {
  if (exponent == 0)
    return x.constant(1);
  if (exponent == 1)
    return x;
  if (exponent == 2)
    return x * x;
  if (exponent == 3)
    return x * x * x;
  if (exponent == 0.5)
    return sqrt(x);
  if (exponent == -0.5)
    return rsqrt(x);
  if (exponent == -1)
    return 1.0 / x;
  if (exponent == -2)
    return 1.0 / (x * x);
  return pow(x, exponentElement);
}

static Element complexPower(Element x, double exponent, Element exponentElement) {
  if (exponent == 0)
    return x.constant(1);
  if (exponent == 1)
    return x;
  if (exponent == 2 || exponent == 3)
    return integerPower(x, static_cast<uint64_t>(exponent));
  if (exponent == 0.5)
    return complexes::sqrt(x);
  return complexes::pow(x, exponentElement);
}

static LogicalResult lowerPowScalar(Call &call) { // Tensor ** Scalar
  torch::Scalar number = call.args.scalar(1);
  std::optional<double> exponent = torch::asDouble(number);
  // No double holds every integer.
  const int64_t *integer = std::get_if<int64_t>(&number);
  return call.pointwise({call.operand(0), call.operand(1)}, [&](BodyBuilder &, Elements x) {
    if (isComplex(x[0].type()))
      return exponent ? complexPower(x[0], *exponent, x[1]) : complexes::pow(x[0], x[1]);
    if (isFloat(x[0].type()))
      return exponent ? floatPower(x[0], *exponent, x[1]) : pow(x[0], x[1]);
    if (isBool(x[0].type()) && exponent)
      return *exponent != 0 ? x[0] : ~x[0] | x[0];
    if (isInt(x[0].type()) && exponent && *exponent >= 0)
      return integerPower(x[0], integer ? static_cast<uint64_t>(*integer)
                                        : static_cast<uint64_t>(*exponent));
    call.kernels.fail("this dtype or exponent");
    return x[0];
  });
}

/// Exponentiation by squaring over the bits of the exponent, modulo the width as ATen's powi. A
/// negative exponent gives 0 except for the bases 1 and -1.
static Element integerPower(BodyBuilder &, Element base, Element exponent) {
  Element one = base.constant(1), zero = base.constant(0), result = one, square = base;
  unsigned width = base.type().getIntOrFloatBitWidth();
  for (unsigned bit = 0; bit + 1 < width; ++bit) {
    Element mask = exponent.constant(int64_t(1) << bit);
    result = select((exponent & mask) != zero, result * square, result);
    square = square * square;
  }
  if (isUnsigned(base.type()))
    return select((exponent & exponent.constant(int64_t(1) << (width - 1))) != zero,
                  result * square, result);
  Element isOdd = (exponent & one) != zero;
  Element minusOne = base.constant(-1);
  Element negative =
      select(base == one, one, select(base == minusOne, select(isOdd, minusOne, one), zero));
  return select(exponent < zero, negative, result);
}

static LogicalResult lowerPow(Call &call) { // Tensor ** Tensor, Scalar ** Tensor
  return call.pointwise({call.operand(0), call.operand(1)}, [&](BodyBuilder &body, Elements x) {
    if (isComplex(x[0].type()))
      return complexes::pow(x[0], x[1]);
    if (isFloat(x[0].type()))
      return pow(x[0], x[1]);
    if (isInt(x[0].type()))
      return integerPower(body, x[0], x[1]);
    call.kernels.fail("pow of bool");
    return x[0];
  });
}

//===-- Functions of one argument -------------------------------------------------------------===//

/// A function that keeps the dtype; bool and complex numbers only with a form of their own.
static Lowering sameUnary(Unary compute, bool takesBool = false, Unary complexForm = nullptr) {
  return [=](Call &call) {
    Type type = elementType(call.tensor(0));
    if ((isComplex(type) && !complexForm) || (isBool(type) && !takesBool))
      return call.refuse("this dtype");
    return call.pointwise({call.tensor(0)}, [&](BodyBuilder &, Elements x) {
      return isComplex(type) ? complexForm(x[0]) : compute(x[0]);
    });
  };
}

/// A function that keeps the dtype and does nothing to integers.
template <Element (*compute)(Element)> static Element ofFloat(Element x) {
  return isFloat(x.type()) ? compute(x) : x;
}

static Element square(Element x) { return x * x; }
static Element reciprocal(Element x) { return 1.0 / x; }
static Element frac(Element x) { return x - trunc(x); }
template <typename Op> static Element function(Element x) { return apply<Op>(x); }

static Element sign(Element x) {
  if (isUnsigned(x.type()))
    return convert(isTrue(x), x.type());
  Element zero = x.constant(0);
  return convert(zero < x, x.type()) - convert(x < zero, x.type());
}

static Element erfc(Element x) { return apply<math::ErfcOp>(x); }

static Element sinc(Element x) {
  Element scaled = x * std::numbers::pi;
  return select(x == x.constant(0), x.constant(1), apply<math::SinOp>(scaled) / scaled);
}

static LogicalResult lowerAbs(Call &call) {
  if (isComplex(elementType(call.tensor(0))))
    return call.pointwise({call.tensor(0)}, [](BodyBuilder &, Elements x) { return abs(x[0]); });
  return sameUnary(abs)(call);
}

static LogicalResult lowerNeg(Call &call) {
  if (isBool(elementType(call.tensor(0))))
    return call.refuse("negation of bool");
  return call.pointwise({call.tensor(0)}, [](BodyBuilder &, Elements x) { return -x[0]; });
}

static LogicalResult lowerRoundDecimals(Call &call) {
  int64_t decimals = call.args.integer("decimals");
  if (!isFloat(elementType(call.tensor(0))))
    return call.refuse("this dtype");
  double scale = std::pow(10.0, std::abs(decimals));
  return call.pointwise({call.tensor(0)}, [&](BodyBuilder &, Elements x) {
    if (decimals == 0)
      return roundEven(x[0]);
    return decimals > 0 ? roundEven(x[0] * scale) / scale : roundEven(x[0] / scale) * scale;
  });
}

//===-- Functions of two floats ---------------------------------------------------------------===//

/// log(base^a + base^b) without overflow; in double precision, since the parts of the sum cancel.
static Element logAdd(Element x, Element y, bool base2) {
  Type f64 = x.b().getF64Type();
  Element a = convert(x, f64), b = convert(y, f64);
  Element large = maximum(a, b);
  Element distance = -abs(a - b);
  Element rest =
      base2 ? log1p(apply<math::Exp2Op>(distance)) * (1 / std::numbers::ln2) : log1p(exp(distance));
  // Equal infinities have no distance.
  Element same = (a == b) & isInf(a);
  return convert(select(same, a, large + rest), x.type());
}
static Element logaddexp(Element a, Element b) { return logAdd(a, b, false); }
static Element logaddexp2(Element a, Element b) { return logAdd(a, b, true); }

/// a * log(b), 0 where a is 0, NaN where b is.
static Element xlogy(Element a, Element b) {
  return select(isNan(b), b, select(a == a.constant(0), a.constant(0), a * log(b)));
}
static Element xlog1py(Element a, Element b) {
  return select(isNan(b), b, select(a == a.constant(0), a.constant(0), a * log1p(b)));
}

static Element degToRad(Element x) { return x * (std::numbers::pi / 180); }
static Element radToDeg(Element x) { return x * (180 / std::numbers::pi); }
/// The normal distribution's cumulative function.
static Element ndtr(Element x) { return 0.5 * erfc(-x * (1 / std::numbers::sqrt2)); }
/// -x log x, 0 at 0 and -inf below.
static Element entr(Element x) {
  Element zero = x.constant(0);
  Element below = x.constant(-std::numeric_limits<double>::infinity());
  Element value = select(x == zero, zero, select(x > zero, -x * log(x), below));
  return select(isNan(x), x, value);
}
/// Also of bools.
static LogicalResult lowerHeaviside(Call &call) {
  return call.pointwise({call.operand(0), call.operand(1)}, [&](BodyBuilder &, Elements x) {
    if (isComplex(x[0].type())) {
      call.kernels.fail("complex numbers");
      return x[0];
    }
    Element zero = x[0].constant(0);
    return select(x[0] == zero, x[1], convert(zero < x[0], x[0].type()));
  });
}

/// |a - b| <= atol + rtol * |b|, or equal.
static LogicalResult lowerIsclose(Call &call) {
  double rtol = call.args.number("rtol"), atol = call.args.number("atol");
  bool equalNan = call.args.boolean("equal_nan");
  Type type = elementType(call.tensor(0));
  if (elementType(call.tensor(1)) != type)
    return call.refuse("these dtypes");
  return call.pointwise({call.tensor(0), call.tensor(1)}, [&](BodyBuilder &, Elements x) {
    Element a = x[0], b = x[1], close = a == b;
    if (rtol == 0 && atol == 0 && !equalNan)
      return close;
    // Integers are compared as floats, in which no difference wraps around.
    Type wide = toFloat(a.type());
    Element allowed = atol + abs(convert(b, wide) * rtol);
    Element distance = abs(convert(a, wide) - convert(b, wide));
    Element finite = distance < distance.constant(std::numeric_limits<double>::infinity());
    close = close | (finite & (distance <= allowed));
    if (!equalNan || isInt(a.type()) || isBool(a.type()))
      return close;
    auto nan = [](Element x) {
      return isComplex(x.type()) ? isNan(real(x)) | isNan(imag(x)) : isNan(x);
    };
    return close | (nan(a) & nan(b));
  });
}

void lowering::registerPointwise(LoweringTable &table) {
  table.add({"aten.add.Tensor", "aten.add.Scalar"}, lowerAdd);
  table.add({"aten.sub.Tensor", "aten.sub.Scalar", "aten.subtract.Tensor", "aten.subtract.Scalar"},
            lowerSub);
  table.add({"aten.rsub.Tensor", "aten.rsub.Scalar"}, lowerRsub);
  table.add({"aten.mul.Tensor", "aten.mul.Scalar", "aten.multiply.Tensor", "aten.multiply.Scalar"},
            lowerMul);
  table.add("aten.addcmul.default", [](Call &call) { return lowerAddc(call, false); });
  table.add("aten.addcdiv.default", [](Call &call) { return lowerAddc(call, true); });
  table.add({"aten.lerp.Scalar", "aten.lerp.Tensor"}, lowerLerp);

  table.add({"aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor",
             "aten.true_divide.Scalar", "aten.divide.Tensor", "aten.divide.Scalar"},
            lowerTrueDiv);
  table.add({"aten.div.Tensor_mode", "aten.div.Scalar_mode", "aten.divide.Tensor_mode",
             "aten.divide.Scalar_mode"},
            lowerDivMode);
  table.add({"aten.floor_divide.default", "aten.floor_divide.Scalar"},
            division(floorDiv, /*exactNumbers=*/true));
  table.add({"aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor"},
            division(remainder));
  table.add({"aten.fmod.Tensor", "aten.fmod.Scalar"}, division(fmod));

  table.add("aten.pow.Tensor_Scalar", lowerPowScalar);
  table.add({"aten.pow.Tensor_Tensor", "aten.pow.Scalar"}, lowerPow);

  table.add({"aten.abs.default", "aten.absolute.default"}, lowerAbs);
  table.add({"aten.neg.default", "aten.negative.default"}, lowerNeg);
  table.add("aten.square.default", sameUnary(square, /*takesBool=*/true, square));
  table.add({"aten.sign.default", "aten.sgn.default"},
            sameUnary(sign, /*takesBool=*/true, complexes::sgn));
  table.add("aten.floor.default", sameUnary(ofFloat<floor>));
  table.add("aten.ceil.default", sameUnary(ofFloat<ceil>));
  table.add({"aten.trunc.default", "aten.fix.default"}, sameUnary(ofFloat<trunc>));
  table.add({"aten.round.default", "aten.special_round.default"}, sameUnary(ofFloat<roundEven>));
  table.add({"aten.round.decimals", "aten.special_round.decimals"}, lowerRoundDecimals);
  table.add("aten.frac.default", sameUnary(ofFloat<frac>));

  struct Function {
    StringRef name;
    Unary compute, complexForm = nullptr;
  };
  const Function functions[] = {
      {"exp", exp, complexes::exp},
      {"exp2", function<math::Exp2Op>, complexes::exp2},
      {"expm1", expm1, complexes::expm1},
      {"log", log, complexes::log},
      {"log2", function<math::Log2Op>, complexes::log2},
      {"log10", function<math::Log10Op>, complexes::log10},
      {"log1p", log1p, complexes::log1p},
      {"sqrt", sqrt, complexes::sqrt},
      {"rsqrt", rsqrt, complexes::rsqrt},
      {"reciprocal", reciprocal, reciprocal},
      {"sin", function<math::SinOp>, complexes::sin},
      {"cos", function<math::CosOp>, complexes::cos},
      {"tan", function<math::TanOp>, complexes::tan},
      {"asin", function<math::AsinOp>, complexes::asin},
      {"acos", function<math::AcosOp>, complexes::acos},
      {"atan", function<math::AtanOp>, complexes::atan},
      {"sinh", function<math::SinhOp>, complexes::sinh},
      {"cosh", function<math::CoshOp>, complexes::cosh},
      {"tanh", tanh, complexes::tanh},
      {"asinh", function<math::AsinhOp>, complexes::asinh},
      {"acosh", function<math::AcoshOp>, complexes::acosh},
      {"atanh", function<math::AtanhOp>, complexes::atanh},
      {"arcsin", function<math::AsinOp>, complexes::asin},
      {"arccos", function<math::AcosOp>, complexes::acos},
      {"arctan", function<math::AtanOp>, complexes::atan},
      {"arcsinh", function<math::AsinhOp>, complexes::asinh},
      {"arccosh", function<math::AcoshOp>, complexes::acosh},
      {"arctanh", function<math::AtanhOp>, complexes::atanh},
      {"sigmoid", sigmoid, complexes::sigmoid},
      {"sinc", sinc, complexes::sinc},
      {"special_exp2", function<math::Exp2Op>, complexes::exp2},
      {"special_expm1", expm1, complexes::expm1},
      {"special_log1p", log1p, complexes::log1p},
      {"special_expit", sigmoid, complexes::sigmoid},
      {"special_sinc", sinc, complexes::sinc},
      {"erf", erf},
      {"erfc", erfc},
      {"deg2rad", degToRad},
      {"rad2deg", radToDeg},
      {"special_ndtr", ndtr},
      {"special_entr", entr},
      {"special_erf", erf},
      {"special_erfc", erfc},
  };
  for (const Function &f : functions)
    table.add(("aten." + f.name + ".default").str(), floatFunction(f.compute, f.complexForm));
  table.add({"aten.atan2.default", "aten.arctan2.default"}, floatFunction(atan2));
  table.add("aten.hypot.default", floatFunction(static_cast<Binary>(hypot)));
  table.add("aten.copysign.Tensor", floatFunction(static_cast<Binary>(copysign)));
  table.add("aten.copysign.Scalar", floatFunction(static_cast<Binary>(copysign)));
  table.add("aten.heaviside.default", lowerHeaviside);
  table.add("aten.isclose.default", lowerIsclose);
  table.add("aten.logaddexp.default", floatFunction(logaddexp, complexes::logaddexp));
  table.add("aten.logaddexp2.default", floatFunction(logaddexp2));
  table.add({"aten.xlogy.Tensor", "aten.xlogy.Scalar_Self", "aten.xlogy.Scalar_Other",
             "aten.special_xlogy.default", "aten.special_xlogy.other_scalar",
             "aten.special_xlogy.self_scalar"},
            floatFunction(xlogy));
  table.add({"aten.special_xlog1py.default", "aten.special_xlog1py.other_scalar",
             "aten.special_xlog1py.self_scalar"},
            floatFunction(xlog1py));
}
