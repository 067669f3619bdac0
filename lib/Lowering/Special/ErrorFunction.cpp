// The error function's family and the normal distribution.
#include "Special/Functions.h"
#include <numbers>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

#include "Special/SpecialTables.inc"

Element lowering::erfcx(Element x) {
  Element y = abs(x);
  Element t = (y - 3.75) / (y + 3.75);
  t = select(isInf(y), y.constant(1.0), t);
  Element positive = evaluate(erfcxAll, t) / (1.0 + 2.0 * y);
  Element negative = 2.0 * exp(x * x) - positive;
  return select(x < x.constant(0.0), negative, positive);
}

/// Approximately, then two of Newton's steps.
static Element erfinv(Element y) {
  Element one = y.constant(1.0), size = abs(y);
  Element square = y * y;
  Element x = y * polynomial(square, {-0.140543331, 0.914624893, -1.645349621, 0.886226899}) /
              polynomial(square, {0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0});
  Element isTail = size > y.constant(0.7);
  Element z = sqrt(-log((1.0 - select(isTail, size, y.constant(0.9))) * 0.5));
  Element tail = polynomial(z, {1.641345311, 3.429567803, -1.624906493, -1.970840454}) /
                 polynomial(z, {1.637067800, 3.543889200, 1.0});
  x = select(isTail, copysign(tail, y), x);
  Element fromOne = one - size;
  for (int i = 0; i < 2; ++i) {
    // In the tail the distance from 1 is what is known exactly.
    Element center = erf(x) - y;
    Element outer = fromOne - apply<math::ErfcOp>(abs(x));
    outer = select(y < y.constant(0.0), -outer, outer);
    Element slope = 2 / std::sqrt(std::numbers::pi) * exp(-x * x);
    x = x - select(isTail, outer, center) / slope;
  }
  x = select(size == one, copysign(y.constant(infinity), y), x);
  return select(size > one, y.constant(notANumber), x);
}

/// log of the normal distribution function; far below zero through erfcx, which does not vanish.
static Element logNdtr(Element x) {
  Element t = x * (1 / std::numbers::sqrt2);
  Element below = log(erfcx(-t) * 0.5) - t * t;
  Element above = log1p(apply<math::ErfcOp>(t) * -0.5);
  return select(x < x.constant(-1.0), below, above);
}

/// The normal distribution's quantile function.
static Element ndtri(Element p) {
  Element zero = p.constant(0.0), one = p.constant(1.0);
  Element fromHalf = p - 0.5, isCenter = abs(fromHalf) <= p.constant(0.375);
  Element y = select(isCenter, fromHalf, zero);
  Element center = y * evaluate(normalCenter, y * y);
  Element isUpper = p > p.constant(0.5);
  Element tail = select(isUpper, 1.0 - p, p);
  tail = select(isCenter | ~(tail > zero), p.constant(0.1), tail);
  Element x = sqrt(-2.0 * log(tail)), z = 1.0 / x;
  Element isFar = x > x.constant(8.0), eighth = x.constant(0.125);
  Element correction = select(isFar, evaluate(normalFarTail, select(isFar, z, eighth)),
                              evaluate(normalTail, select(isFar, eighth, z)));
  Element quantile = x - log(x) / x - z * correction;
  Element value = select(isCenter, center, select(isUpper, quantile, -quantile));
  value = select(p == zero, p.constant(-infinity), value);
  value = select(p == one, p.constant(infinity), value);
  return select((p < zero) | (p > one) | isNan(p), p.constant(notANumber), value);
}

void lowering::registerErrorFunction(LoweringTable &table) {
  table.add({"aten.erfinv.default", "aten.special_erfinv.default"},
            floatFunction(inDouble<erfinv>));
  table.add("aten.special_erfcx.default", floatFunction(inDouble<erfcx>));
  table.add("aten.special_log_ndtr.default", floatFunction(inDouble<logNdtr>));
  table.add("aten.special_ndtri.default", floatFunction(inDouble<ndtri>));
}
