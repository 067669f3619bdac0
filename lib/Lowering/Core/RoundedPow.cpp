// A power computed with twice the bits of a double. A pair of doubles is their exact sum, with the
// second below half a unit of the first.
//
//   log x   = l + d - d^2/2   with l = log x in doubles, d = x * exp(-l) - 1 in pairs
//   x ** y  = exp(y * log x)
//   exp t   = 2^k * (1 + e)^256   with 1 + e = exp((t - k * ln 2) / 256), by its series
#include "Core/RoundedPow.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
struct Pair {
  Element high, low;
};
} // namespace

static Element fma(Element a, Element b, Element c) {
  return a.make(math::FmaOp::create(a.b(), a.value(), b.value(), c.value()).getResult());
}

static Pair of(Element x) { return {x, x.constant(0.0)}; }

/// a + b, exactly.
static Pair sum(Element a, Element b) {
  Element high = a + b, part = high - a;
  return {high, (a - (high - part)) + (b - part)};
}

/// The same where a is the larger one.
static Pair sumOrdered(Element a, Element b) {
  Element high = a + b;
  return {high, b - (high - a)};
}

/// a * b, exactly.
static Pair product(Element a, Element b) {
  Element high = a * b;
  return {high, fma(a, b, -high)};
}

static Pair addPairs(Pair a, Pair b) {
  Pair high = sum(a.high, b.high), low = sum(a.low, b.low);
  high = sumOrdered(high.high, high.low + low.high);
  return sumOrdered(high.high, high.low + low.low);
}

static Pair multiplyPairs(Pair a, Pair b) {
  Pair high = product(a.high, b.high);
  return sumOrdered(high.high, high.low + fma(a.high, b.low, a.low * b.high));
}

static Pair dividePair(Pair a, double divisor) {
  Element d = a.high.constant(divisor), high = a.high / d;
  return sumOrdered(high, (fma(-high, d, a.high) + a.low) / d);
}

static Element powerOfTwo(Element exponent) {
  constexpr int64_t bias = 1023, mantissaBits = 52;
  Element bits = convert(exponent, IntegerType::get(exponent.type().getContext(), 64));
  bits = shiftLeft(bits + bits.constant(bias), bits.constant(mantissaBits));
  return exponent.make(
      arith::BitcastOp::create(exponent.b(), exponent.type(), bits.value()).getResult());
}

/// exp(t) is 2^exponent * (1 + rest).
namespace {
struct Exponential {
  Element exponent;
  Pair rest;
};
} // namespace

static Exponential exponential(Pair t) {
  // ln 2 in three parts. The first has 41 bits, so that its product with an exponent is exact.
  constexpr double first = 0x1.62e42fefa3p-1, second = 0x9.ef35793c7673p-45,
                   third = 0x0.007e5ed5e81e69p-93;
  constexpr int halvings = 8, terms = 10;
  Element one = t.high.constant(1.0);
  Element k = floor(t.high * 1.4426950408889634 + 0.5);
  Pair r = addPairs(sum(t.high, k * -first), of(t.low));
  r = addPairs(r, product(k, one * -second));
  r = addPairs(r, of(k * -third));
  constexpr double part = 1.0 / (1 << halvings);
  r = {r.high * part, r.low * part};
  Pair factor = of(one);
  for (int i = terms; i > 1; --i)
    factor = addPairs(of(one), dividePair(multiplyPairs(r, factor), i));
  Pair rest = multiplyPairs(r, factor);
  for (int i = 0; i < halvings; ++i)
    rest = multiplyPairs(rest, addPairs(of(one * 2.0), rest)); // (1 + e)^2 - 1
  return {k, rest};
}

Element lowering::roundedPow(Element x, Element y) {
  Element one = x.constant(1.0), logarithm = log(x);
  Exponential inverse = exponential(of(-logarithm));
  Pair ratio = multiplyPairs(of(x * powerOfTwo(inverse.exponent)), addPairs(of(one), inverse.rest));
  Pair d = addPairs(ratio, of(-one));
  Pair exact = addPairs(of(logarithm), addPairs(d, of(d.high * d.high * -0.5)));
  Pair t = multiplyPairs(exact, of(y));
  Exponential result = exponential(t);
  Element rounded = addPairs(of(one), result.rest).high * powerOfTwo(result.exponent);
  // Beyond these, and for what is no number, no size comes of it.
  Element isOrdinary =
      (x >= x.constant(0x1p-64)) & (x <= x.constant(0x1p64)) & (abs(t.high) < x.constant(700.0));
  return select(isOrdinary, rounded, pow(x, y));
}
