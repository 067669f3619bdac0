// Orthogonal polynomials, in the dtype of the operands as ATen computes them: the recurrence up to
// the degree, which is data, and trigonometric forms where ATen has them.
#include "Special/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// A degree is a 64-bit integer; a recurrence that long would not end, but no longer one is
/// refused.
static constexpr int64_t maxDegree = INT64_MAX;

namespace {
/// The operands: x, the degree as an integer and as a float, and often needed parts.
struct Degree {
  Element x, n, asFloat;
  Degree(Element x, Element degree)
      : x(x), n(convert(degree, x.b().getI64Type())), asFloat(convert(n, x.type())) {}
  Element isOdd() const { return (n & n.constant(1)) == n.constant(1); }
  Element is(int64_t value) const { return n == n.constant(value); }
  Element above(int64_t value) const { return n > n.constant(value); }
};
using Next = function_ref<Element(Element p, Element q, Element k)>;
} // namespace

static Element number(Element like, double value) { return like.constant(value); }

/// p(0) = 1 and p(1) = `one`, then p(k + 1) = next(p(k - 1), p(k), k) for k below the degree, and
/// no further from NaN.
static Element recur(const Degree &d, Element one, Next next) {
  Element start = d.x.constant(1.0);
  SmallVector<Element> state = iterate(maxDegree, {d.n.constant(1), start, one}, [&](Elements s) {
    Element more = (s[0] < d.n) & ~isNan(s[2]);
    Element value = next(s[1], s[2], convert(s[0], d.x.type()));
    Element k = select(more, s[0] + s[0].constant(1), s[0]);
    Element again = more & (k < d.n);
    return std::make_pair(
        again, SmallVector<Element>{k, select(more, s[2], s[1]), select(more, value, s[2])});
  });
  Element value = select(d.is(0), start, state[2]);
  return select(d.n < d.n.constant(0), d.x.constant(0.0), value);
}

//===-- Chebyshev -----------------------------------------------------------------------------===//

enum class Kind { T, U, V, W };

/// The four kinds at y, which is x or, shifted, 2x - 1. Where ATen's tests differ between plain and
/// shifted, `atLow` and `atHigh` are the tests for y = -1 and y = 1.
template <Kind kind, bool shifted> static Element chebyshev(Element x, Element degree) {
  Degree d(x, degree);
  Element one = number(x, 1), y = shifted ? x + x - 1.0 : x, odd = d.isOdd();
  Element atHigh = x == one, atLow = shifted ? x == number(x, 0) : x == number(x, -1);
  Element n = d.asFloat, sign = select(odd, -one, one), twice = n + n + 1.0;
  Element angle = apply<math::AcosOp>(y), half = angle * 0.5;
  auto sinOf = [](Element v) { return apply<math::SinOp>(v); };
  auto cosOf = [](Element v) { return apply<math::CosOp>(v); };

  Element first, high, low, trigonometric;
  int64_t fromDegree = 6;
  switch (kind) {
  case Kind::T:
    first = y;
    high = one;
    low = sign;
    trigonometric = cosOf(n * angle);
    break;
  case Kind::U: {
    fromDegree = shifted ? 6 : 8;
    first = y + y;
    high = n + 1.0;
    low = sign * (n + 1.0);
    Element sine = sinOf(angle), isZero = sine == number(x, 0);
    trigonometric = select(isZero, (n + 1.0) * cosOf((n + 1.0) * angle) / y,
                           sinOf((n + 1.0) * angle) / select(isZero, one, sine));
    break;
  }
  case Kind::V: {
    fromDegree = shifted ? 6 : 8;
    first = y + y - 1.0;
    high = one;
    low = sign * twice;
    Element isFull = sinOf(half) == one;
    trigonometric = select(isFull, low, cosOf((n + 0.5) * angle) / cosOf(half));
    break;
  }
  case Kind::W: {
    fromDegree = shifted ? 4 : 8;
    first = y + y + 1.0;
    high = twice;
    low = sign;
    Element isFull = cosOf(half) == one;
    Element edge = shifted ? sign : select(x > number(x, 0), twice, sign);
    trigonometric = select(isFull, edge, sinOf((n + 0.5) * angle) / sinOf(half));
    break;
  }
  }
  Element value = recur(d, first, [&](Element p, Element q, Element) { return (y + y) * q - p; });
  Element inside = d.above(fromDegree) & (abs(y) < one);
  value = select(inside, trigonometric, value);
  value = select(atHigh, high, select(atLow, low, value));
  return select(d.n < d.n.constant(0), number(x, 0), value);
}

//===-- Hermite, Laguerre, Legendre -----------------------------------------------------------===//

/// Beyond this degree ATen gives NaN.
static int64_t hermiteLimit(Type type) { return type.isF64() ? 512 : 128; }

static Element hermite(Element x, Element degree, bool physicists) {
  Degree d(x, degree);
  // Degrees past the limit are not computed.
  Element tooHigh = d.above(hermiteLimit(x.type()));
  d.n = select(tooHigh, d.n.constant(0), d.n);
  Element value = recur(d, physicists ? x + x : x, [&](Element p, Element q, Element k) {
    return physicists ? (x + x) * q - (k + k) * p : x * q - k * p;
  });
  return select(tooHigh, number(x, std::numeric_limits<double>::quiet_NaN()), value);
}
static Element hermiteH(Element x, Element n) { return hermite(x, n, true); }
static Element hermiteHe(Element x, Element n) { return hermite(x, n, false); }

static Element laguerre(Element x, Element degree) {
  Degree d(x, degree);
  Element value = recur(d, 1.0 - x, [&](Element p, Element q, Element k) {
    return (((k + k) + (1.0 - x)) * q - k * p) / (k + 1.0);
  });
  Element atZero = (x == number(x, 0)) & ~(d.n < d.n.constant(0));
  return select(atZero, number(x, 1), value);
}

static Element legendre(Element x, Element degree) {
  Degree d(x, degree);
  Element value = recur(d, x, [&](Element p, Element q, Element k) {
    return ((k + k + 1.0) * x * q - k * p) / (k + 1.0);
  });
  Element one = number(x, 1);
  Element edge = select((x > number(x, 0)) | ~d.isOdd(), one, -one);
  return select((abs(x) == one) & ~(d.n < d.n.constant(0)), edge, value);
}

void lowering::registerPolynomial(LoweringTable &table) {
  const std::pair<StringRef, Binary> polynomials[] = {
      {"chebyshev_polynomial_t", chebyshev<Kind::T, false>},
      {"chebyshev_polynomial_u", chebyshev<Kind::U, false>},
      {"chebyshev_polynomial_v", chebyshev<Kind::V, false>},
      {"chebyshev_polynomial_w", chebyshev<Kind::W, false>},
      {"shifted_chebyshev_polynomial_t", chebyshev<Kind::T, true>},
      {"shifted_chebyshev_polynomial_u", chebyshev<Kind::U, true>},
      {"shifted_chebyshev_polynomial_v", chebyshev<Kind::V, true>},
      {"shifted_chebyshev_polynomial_w", chebyshev<Kind::W, true>},
      {"hermite_polynomial_h", hermiteH},
      {"hermite_polynomial_he", hermiteHe},
      {"laguerre_polynomial_l", laguerre},
      {"legendre_polynomial_p", legendre},
  };
  for (auto [name, compute] : polynomials)
    for (StringRef overload : {".default", ".n_scalar", ".x_scalar"})
      table.add(("aten.special_" + name + overload).str(), floatFunction(compute));
}
