// Bessel's and Airy's functions, computed in double precision; what they give at zero, below and at
// infinity is ATen's.
#include "Special/Functions.h"
#include <numbers>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

#include "Special/SpecialTables.inc"

/// exp(-|x|) I0(x).
static Element scaledI0(Element x) {
  Element y = abs(x), isSmall = y <= y.constant(8.0);
  Element large = select(isSmall, y.constant(8.0), y);
  return select(isSmall, evaluate(i0Small, y), evaluate(i0Large, 1.0 / large) / sqrt(large));
}

/// exp(-|x|) I1(x); 0 where x is a zero of either sign.
static Element scaledI1(Element x) {
  Element y = abs(x), isSmall = y <= y.constant(8.0);
  Element large = select(isSmall, y.constant(8.0), y);
  Element value =
      select(isSmall, y * evaluate(i1Small, y), evaluate(i1Large, 1.0 / large) / sqrt(large));
  return select(x < x.constant(0.0), -value, value);
}

Element lowering::besselI0(Element x) { return exp(abs(x)) * scaledI0(x); }
Element lowering::besselI1(Element x) { return exp(abs(x)) * scaledI1(x); }

/// K of order 0 or 1, times exp(x) if `scaled`.
template <int order, bool scaled> static Element besselK(Element x) {
  Element isSmall = x <= x.constant(2.0), zero = x.constant(0.0);
  Element y = select(isSmall & (x > zero), x, x.constant(1.0)), square = y * y;
  Element logarithm = log(y * 0.5);
  Element small = order == 0 ? evaluate(k0Small, square) - logarithm * besselI0(y)
                             : evaluate(k1Small, square) / y + logarithm * besselI1(y);
  if (scaled)
    small = small * exp(y);
  Element z = select(isSmall, x.constant(2.0), x);
  Element large = evaluate(order == 0 ? k0Large : k1Large, 1.0 / z) / sqrt(z);
  if (!scaled)
    large = large * exp(-z);
  Element value = select(isSmall, small, large);
  value = select(x < zero, x.constant(notANumber), value);
  value = select(x == zero, x.constant(infinity), value);
  return select(isNan(x), x, value);
}

/// J and Y for x >= 5: amplitude and phase.
template <int order, bool second> static Element besselFar(Element x) {
  Element inverse = 1.0 / x, square = inverse * inverse;
  Element p = evaluate(order == 0 ? p0Large : p1Large, square);
  Element q = evaluate(order == 0 ? q0Large : q1Large, square) * inverse;
  Element angle = x - (2 * order + 1) * std::numbers::pi / 4;
  Element sine = apply<math::SinOp>(angle), cosine = apply<math::CosOp>(angle);
  Element value = second ? p * sine + q * cosine : p * cosine - q * sine;
  return value * sqrt(inverse * (2 / std::numbers::pi));
}

/// J for 0 <= x <= 5.
template <int order> static Element besselJNear(Element x) {
  Element square = x * x;
  const double *zeros = order == 0 ? besselZeros0 : besselZeros1;
  Element value =
      (square - zeros[0]) * (square - zeros[1]) * evaluate(order == 0 ? j0Small : j1Small, square);
  return order == 0 ? value : value * x;
}

template <int order> static Element besselJ(Element x) {
  Element y = abs(x), isNear = y <= y.constant(5.0);
  Element value = select(isNear, besselJNear<order>(select(isNear, y, y.constant(1.0))),
                         besselFar<order, false>(select(isNear, y.constant(5.0), y)));
  if (order == 0)
    return select(isNan(x), x, value);
  Element zero = x.constant(0.0);
  value = select(x < zero, -value, value);
  return select(isNan(x) | (x == zero), x, value);
}

template <int order> static Element besselY(Element x) {
  Element zero = x.constant(0.0), isNear = x <= x.constant(5.0);
  Element y = select(isNear & (x > zero), x, x.constant(1.0)), square = y * y;
  Element logarithm = log(y) * besselJNear<order>(y);
  Element near =
      order == 0 ? evaluate(y0Small, square) + logarithm * (2 / std::numbers::pi)
                 : y * evaluate(y1Small, square) + (logarithm - 1.0 / y) * (2 / std::numbers::pi);
  Element value = select(isNear, near, besselFar<order, true>(select(isNear, x.constant(5.0), x)));
  value = select(x < zero, x.constant(notANumber), value);
  value = select(x == zero, x.constant(-infinity), value);
  return select(isNan(x), x, value);
}

static Element sphericalJ0(Element x) {
  Element square = x * x, isNear = abs(x) < x.constant(0.5);
  Element series = polynomial(square, {1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040,
                                       1.0 / 120, -1.0 / 6, 1.0});
  series = select(isNear, series, apply<math::SinOp>(x) / select(isNear, x.constant(1.0), x));
  return select(isInf(x), x.constant(0.0), series);
}

static Element airyAi(Element x) {
  Element y = abs(x), bound = y.constant(2.09), isFar = y > bound;
  y = select(isFar, y, bound);
  Element root = sqrt(y), angle = y * root * (2.0 / 3), inverse = 1.0 / angle;
  Element amplitude = 1.0 / (std::sqrt(std::numbers::pi) * sqrt(root));
  Element positive = 0.5 * amplitude * exp(-angle) * evaluate(airyDecay, inverse);
  Element phase = angle + std::numbers::pi / 4;
  Element negative = amplitude * (apply<math::SinOp>(phase) * evaluate(airyF, inverse) -
                                  apply<math::CosOp>(phase) * evaluate(airyG, inverse) * inverse);
  Element zero = x.constant(0.0);
  Element value = select(isFar, select(x > zero, positive, negative),
                         evaluate(airyCenter, select(isFar, zero, x)));
  value = select(x > x.constant(103.892), zero, value);
  return select(isInf(x) | isNan(x), x.constant(notANumber), value);
}

void lowering::registerBessel(LoweringTable &table) {
  table.add(
      {"aten.i0.default", "aten.special_i0.default", "aten.special_modified_bessel_i0.default"},
      floatFunction(inDouble<besselI0>));
  table.add({"aten.special_i1.default", "aten.special_modified_bessel_i1.default"},
            floatFunction(inDouble<besselI1>));
  const std::pair<StringRef, Unary> functions[] = {
      {"i0e", inDouble<scaledI0>},
      {"i1e", inDouble<scaledI1>},
      {"modified_bessel_k0", inDouble<besselK<0, false>>},
      {"modified_bessel_k1", inDouble<besselK<1, false>>},
      {"scaled_modified_bessel_k0", inDouble<besselK<0, true>>},
      {"scaled_modified_bessel_k1", inDouble<besselK<1, true>>},
      {"bessel_j0", inDouble<besselJ<0>>},
      {"bessel_j1", inDouble<besselJ<1>>},
      {"bessel_y0", inDouble<besselY<0>>},
      {"bessel_y1", inDouble<besselY<1>>},
      {"spherical_bessel_j0", inDouble<sphericalJ0>},
      {"airy_ai", inDouble<airyAi>},
  };
  for (auto [name, compute] : functions)
    table.add(("aten.special_" + name + ".default").str(), floatFunction(compute));
}
