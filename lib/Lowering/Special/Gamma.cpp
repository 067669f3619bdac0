// The gamma function's family. Everything is computed in double precision; poles, signs and the
// values at the ends of the domain are ATen's.
#include "Special/Functions.h"
#include <numbers>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

#include "Special/SpecialTables.inc"

static constexpr double epsilon = 0x1p-53;

//===-- log gamma -----------------------------------------------------------------------------===//

/// The terms of Stirling's series past the first: log gamma(y) = (y - 1/2) log y - y +
/// log(2 pi)/2 + this.
static Element stirlingRest(Element y) {
  Element inverse = 1.0 / y;
  return inverse * polynomial(inverse * inverse, {1.0 / 156, -691.0 / 360360, 1.0 / 1188,
                                                  -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12});
}

/// The logarithm for a positive number.
static Element logGammaOfPositive(Element x) {
  // Between the zeros at 1 and 2; below, from there by the recurrence.
  Element isSmall = x < x.constant(0.5);
  Element y = select(isSmall, x + 1.0, x);
  Element low = (y - 1.0) * evaluate(lgammaOne, y);
  low = select(isSmall, low - log(x), low);
  Element middle = (x - 2.0) * evaluate(lgammaTwo, x);
  // Stirling's series from 8 on.
  Element product = x.constant(1.0);
  y = x;
  for (int i = 0; i < 6; ++i) {
    Element below = y < y.constant(8.0);
    product = select(below, product * y, product);
    y = select(below, y + 1.0, y);
  }
  double half = 0.5 * std::log(2 * std::numbers::pi);
  Element high = ((y - 0.5) * log(y) - y) + half + stirlingRest(y) - log(product);
  high = select(x == x.constant(infinity), x, high);
  return select(x < x.constant(1.5), low, select(x < x.constant(2.5), middle, high));
}

Element lowering::logGamma(Element x) {
  Element isNegative = x < x.constant(0.0);
  Element positive = logGammaOfPositive(select(isNegative, 1.0 - x, x));
  Element sine = abs(sinPi(x));
  Element reflected = std::log(std::numbers::pi) - log(sine) - positive;
  // Adding 0 takes the sign of the zero at 1.
  Element result = select(isNegative, reflected, positive + 0.0);
  // The sine of a denormal number has few bits.
  result = select(abs(x) < x.constant(0x1p-100), -log(abs(x)), result);
  Element isPole = (x <= x.constant(0.0)) & (floor(x) == x);
  result = select(isPole | isInf(x), x.constant(infinity), result);
  return select(isNan(x), x, result);
}

static LogicalResult lowerMultigammaln(Call &call) { // sum of lgamma(a - i/2), i < p
  int64_t p = call.args.integer("p");
  Type type = toFloat(elementType(call.tensor(0)));
  if (isComplex(type) || p < 1)
    return call.refuse("this dtype or order");
  Type f64 = Float64Type::get(type.getContext());
  return call.pointwise({call.tensor(0)}, type, [&](BodyBuilder &, Elements x) {
    Element a = convert(x[0], f64);
    Element sum = a.constant(p * (p - 1) * 0.25 * std::log(std::numbers::pi));
    for (int64_t i = 0; i < p; ++i)
      sum = sum + logGamma(a - 0.5 * i);
    return convert(sum, x[0].type());
  });
}

//===-- Its derivatives -----------------------------------------------------------------------===//

Element lowering::digamma(Element x) {
  Element zero = x.constant(0.0), isNegative = x < zero;
  Element y = select(isNegative, 1.0 - x, x), result = zero;
  for (int i = 0; i < 10; ++i) {
    Element below = y < y.constant(10.0);
    result = select(below, result - 1.0 / y, result);
    y = select(below, y + 1.0, y);
  }
  Element square = 1.0 / (y * y);
  Element series = square * polynomial(square, {1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240,
                                                1.0 / 252, -1.0 / 120, 1.0 / 12});
  result = result + log(y) - 0.5 / y - series;
  Element fraction = (x - trunc(x)) * std::numbers::pi;
  Element reflected = result - std::numbers::pi / apply<math::TanOp>(fraction);
  result = select(isNegative, reflected, result);
  Element isPole = isNegative & (trunc(x) == x);
  result = select(isPole, x.constant(notANumber), result);
  return select(x == zero, copysign(x.constant(infinity), -x), result);
}

/// In f64 of an x of `type`. At its poles ATen finds no infinity: pi * x is rounded to `type`
/// there.
static Element trigamma(Element x, Type type) {
  Element isLow = x < x.constant(0.5), one = x.constant(1.0);
  Element pi = convert(x.constant(std::numbers::pi), type);
  Element rounded = convert(pi * convert(x, type), x.type());
  Element sine = select(x == trunc(x), apply<math::SinOp>(rounded), sinPi(x));
  sine = sine * (1 / std::numbers::pi);
  Element y = select(isLow, 1.0 - x, x);
  Element sum = select(isLow, -1.0 / (sine * sine), x.constant(0.0));
  for (int i = 0; i < 6; ++i) {
    sum = sum + 1.0 / (y * y);
    y = y + 1.0;
  }
  Element square = 1.0 / (y * y);
  Element series = 1.0 + 0.5 / y + square * polynomial(square, {1.0 / 42, -1.0 / 30, 1.0 / 6});
  sum = sum + series / y;
  return select(isLow, -one, one) * sum;
}

/// Bernoulli(2k) / (2k)!, inverted: the Euler-Maclaurin formula's denominators.
static constexpr double zetaDenominators[] = {12.0,
                                              -720.0,
                                              30240.0,
                                              -1209600.0,
                                              47900160.0,
                                              -1.307674368e12 / 691,
                                              7.47242496e10,
                                              -1.067062284288e16 / 3617,
                                              5.109094217170944e18 / 43867,
                                              -8.028576626982912e20 / 174611,
                                              1.5511210043330985984e23 / 854513,
                                              -1.6938241367317436694528e27 / 236364091};

Element lowering::zeta(Element x, Element q) {
  Element zero = x.constant(0.0), one = x.constant(1.0);
  // The sum of (q + i)^-x up to q + i > 9, but no fewer than ten terms.
  Element first = pow(q, -x);
  SmallVector<Element> state = iterate(1 << 22, {zero, q, first, zero}, [&](Elements s) {
    Element i = s[0] + 1.0, a = s[1] + 1.0, term = pow(a, -x), sum = s[2] + term;
    Element again = (i < i.constant(9.0)) | (a <= a.constant(9.0));
    again = again & (abs(term) >= abs(sum) * epsilon);
    return std::make_pair(again, SmallVector<Element>{i, a, sum, term});
  });
  Element w = state[1], sum = state[2], b = state[3];
  Element done = abs(b) < abs(sum) * epsilon;
  Element total = sum + b * w / (x - 1.0) - 0.5 * b;
  Element a = one, k = zero;
  for (double denominator : zetaDenominators) {
    a = a * (x + k);
    b = b / w;
    total = total + a * b / denominator;
    k = k + 1.0;
    a = a * (x + k);
    b = b / w;
    k = k + 1.0;
  }
  Element result = select(done, sum, total);
  Element below = q <= zero;
  result = select(below & (x != floor(x)), x.constant(notANumber), result);
  result = select(below & (q == floor(q)), x.constant(infinity), result);
  result = select(x < one, x.constant(notANumber), result);
  result = select(x == one, x.constant(infinity), result);
  return select(isNan(x) | isNan(q), x.constant(notANumber), result);
}

static LogicalResult lowerPolygamma(Call &call) {
  int64_t n = call.args.integer("n");
  Value self = call.tensor("self");
  Type type = toFloat(elementType(self));
  if (isComplex(type) || n < 0)
    return call.refuse("this dtype or order");
  Type f64 = Float64Type::get(type.getContext());
  return call.pointwise({self}, type, [&](BodyBuilder &, Elements elements) {
    Element x = convert(elements[0], f64), result;
    if (n == 0) {
      result = digamma(x);
    } else if (n == 1) {
      result = trigamma(x, opmath(type));
    } else {
      double factorial = std::tgamma(n + 1.0);
      result = zeta(x.constant(n + 1.0), x) * (n % 2 ? factorial : -factorial);
    }
    return convert(result, elements[0].type());
  });
}

//===-- Incomplete gamma functions ------------------------------------------------------------===//

/// x^a exp(-x) / gamma(a).
static Element gammaFactor(Element a, Element x) {
  Element direct = exp(a * log(x) - x - logGamma(a));
  Element distance = (x - a) / a;
  Element scaled =
      sqrt(a * (0.5 / std::numbers::pi)) * exp(a * (log1p(distance) - distance) - stirlingRest(a));
  return select(a < a.constant(10.0), direct, scaled);
}

/// The lower function by its power series.
static Element lowerSeries(Element a, Element x, Element factor) {
  Element one = a.constant(1.0);
  SmallVector<Element> state = iterate(1 << 20, {a, one, one}, [&](Elements s) {
    Element r = s[0] + 1.0, term = s[1] * (x / r), sum = s[2] + term;
    return std::make_pair(term > sum * epsilon, SmallVector<Element>{r, term, sum});
  });
  return state[2] * factor / a;
}

/// The upper function by its power series in x, for small x.
static Element upperSeries(Element a, Element x) {
  Element one = a.constant(1.0), zero = a.constant(0.0);
  SmallVector<Element> state = iterate(1 << 12, {zero, one, zero}, [&](Elements s) {
    Element n = s[0] + 1.0, power = s[1] * (-x / n), term = power / (a + n), sum = s[2] + term;
    return std::make_pair(abs(term) > abs(sum) * epsilon, SmallVector<Element>{n, power, sum});
  });
  Element logX = log(x);
  Element start = -expm1(a * logX - logGamma(1.0 + a));
  return start - exp(a * logX - logGamma(a)) * state[2];
}

/// The upper function by Legendre's continued fraction (Lentz's method).
static Element upperFraction(Element a, Element x, Element factor) {
  Element tiny = a.constant(1e-300), one = a.constant(1.0), start = x + 1.0 - a;
  auto notZero = [&](Element value) { return select(abs(value) < tiny, tiny, value); };
  Element d = 1.0 / notZero(start);
  SmallVector<Element> state =
      iterate(1 << 20, {a.constant(0.0), start, 1.0 / tiny, d, d}, [&](Elements s) {
        Element i = s[0] + 1.0, b = s[1] + 2.0, numerator = i * (a - i);
        Element denominator = 1.0 / notZero(numerator * s[3] + b);
        Element c = notZero(b + numerator / s[2]), change = c * denominator;
        return std::make_pair(abs(change - one) > a.constant(2 * epsilon),
                              SmallVector<Element>{i, b, c, denominator, s[4] * change});
      });
  return state[4] * factor;
}

/// Temme's uniform expansion for large a and x near a; `lower` chooses the function.
static Element uniformExpansion(Element a, Element x, bool lower) {
  Element distance = (x - a) / a;
  Element eta = copysign(sqrt(-2.0 * (log1p(distance) - distance)), distance);
  Element inverse = 1.0 / a, sum;
  for (ArrayRef<double> row : llvm::reverse(ArrayRef(temmeTerms))) {
    Element value = polynomial(eta, row);
    sum = sum ? sum * inverse + value : value;
  }
  double sign = lower ? -1 : 1;
  Element argument = eta * sqrt(a * 0.5) * sign;
  Element tail = exp(a * eta * eta * -0.5) / sqrt(a * (2 * std::numbers::pi)) * sum;
  return 0.5 * apply<math::ErfcOp>(argument) + tail * sign;
}

static Element incompleteGamma(Element a, Element x, bool lower) {
  Element zero = a.constant(0.0), one = a.constant(1.0);
  // Arguments that the methods are not made for are answered at the end.
  Element regular = (a > zero) & (x > zero) & ~isInf(a) & ~isInf(x);
  Element safeA = select(regular, a, one), safeX = select(regular, x, one);
  // The lower function is 1 to all digits there, which denormal numbers do not have.
  if (lower)
    safeA = maximum(safeA, a.constant(1e-290));
  Element isNear = (safeA > a.constant(200.0)) & (abs(safeX - safeA) < 4.5 * sqrt(safeA));
  Element b = select(isNear, one, safeA), y = select(isNear, one, safeX);
  Element useLower = (y <= b) | (y <= y.constant(1.1));
  // Each method sees arguments for which it converges at once where it is not wanted.
  Element factor = gammaFactor(b, y);
  Element fromLower = lowerSeries(b, select(useLower, y, y.constant(0.0)), factor);
  Element fromUpper =
      upperFraction(select(useLower, one, b), select(useLower, one * 2.0, y), factor);
  Element isTiny =
      (y <= y.constant(1.1)) & (select(y <= y.constant(0.5), -0.4 / log(y), 1.1 * y) >= b);
  Element fromTiny = upperSeries(select(isTiny, b, one), select(isTiny, y, zero + 0.1));
  Element result;
  if (lower) {
    result = select(useLower, fromLower, 1.0 - fromUpper);
  } else {
    result = select(useLower, 1.0 - fromLower, fromUpper);
    result = select(isTiny, fromTiny, result);
  }
  result = select(isNear,
                  uniformExpansion(select(isNear, safeA, one * 300.0),
                                   select(isNear, safeX, one * 300.0), lower),
                  result);
  Element none = a.constant(lower ? 0.0 : 1.0), all = a.constant(lower ? 1.0 : 0.0);
  Element invalid = a.constant(notANumber);
  // In ATen's order: a NaN does not win over every edge.
  result = select(isNan(a) | isNan(x), invalid, result);
  result = select(isInf(x), all, result);
  result = select(isInf(a), select(isInf(x), invalid, none), result);
  result = select(x == zero, none, result);
  result = select(a == zero, select(x > zero, all, invalid), result);
  return select((a < zero) | (x < zero), invalid, result);
}

static Element igamma(Element a, Element x) { return incompleteGamma(a, x, true); }
static Element igammac(Element a, Element x) { return incompleteGamma(a, x, false); }

void lowering::registerGamma(LoweringTable &table) {
  table.add({"aten.lgamma.default", "aten.special_gammaln.default"},
            floatFunction(inDouble<logGamma>));
  table.add({"aten.digamma.default", "aten.special_digamma.default", "aten.special_psi.default"},
            floatFunction(inDouble<digamma>));
  table.add({"aten.polygamma.default", "aten.special_polygamma.default"}, lowerPolygamma);
  table.add({"aten.mvlgamma.default", "aten.special_multigammaln.default"}, lowerMultigammaln);
  table.add({"aten.special_zeta.default", "aten.special_zeta.other_scalar",
             "aten.special_zeta.self_scalar"},
            floatFunction(inDouble<zeta>));
  table.add({"aten.igamma.default", "aten.special_gammainc.default"},
            floatFunction(inDouble<igamma>));
  table.add({"aten.igammac.default", "aten.special_gammaincc.default"},
            floatFunction(inDouble<igammac>));
}
