// Elementary functions of complex numbers, computed of their parts.
#include "Pointwise/ComplexFunctions.h"
#include <numbers>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// The parts of a number, in double precision.
struct Parts {
  Element re, im;
  Parts(Element re, Element im) : re(re), im(im) {}
  explicit Parts(Element z) {
    Type wide = Float64Type::get(z.b().getContext());
    re = convert(real(z), wide);
    im = convert(imag(z), wide);
  }
  /// The number in the type of `like`.
  Element as(Element like) const {
    Type part = cast<ComplexType>(like.type()).getElementType();
    return makeComplex(convert(re, part), convert(im, part));
  }
};
} // namespace

Element lowering::atan2(Element y, Element x) {
  Element zero = x.constant(0), isOrigin = (x == zero) & (y == zero);
  return apply<math::Atan2Op>(y, select(isOrigin, copysign(x.constant(1), x), x));
}

static Element sinOf(Element x) { return apply<math::SinOp>(x); }
static Element cosOf(Element x) { return apply<math::CosOp>(x); }
static Element sinhOf(Element x) { return apply<math::SinhOp>(x); }
static Element coshOf(Element x) { return apply<math::CoshOp>(x); }
static Element asinhOf(Element x) { return apply<math::AsinhOp>(x); }

static Element magnitude(Parts z) { return hypot(z.re, z.im); }

/// The same with the parts multiplied by i, and by -i.
static Parts timesI(Parts z) { return {-z.im, z.re}; }
static Parts overI(Parts z) { return {z.im, -z.re}; }
static Parts multiplyParts(Parts a, Parts b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static Parts expOf(Parts z) {
  Element scale = lowering::exp(z.re), zero = scale.constant(0);
  // Without an imaginary part there is none in the result, whatever its scale; a vanishing scale
  // leaves nothing of an angle.
  Element isReal = z.im == zero, vanishes = scale == zero;
  Element re = select(isReal, scale, select(vanishes, zero, scale * cosOf(z.im)));
  return {re, select(isReal, z.im, select(vanishes, zero, scale * sinOf(z.im)))};
}

static Parts logOf(Parts z) {
  // Near the unit circle the logarithm of the magnitude is one of a number near 1.
  Element x = abs(z.re), y = abs(z.im), large = maximum(x, y), small = minimum(x, y);
  Element near = 0.5 * log1p((large - 1.0) * (large + 1.0) + small * small);
  Element isNear =
      (large > large.constant(0.5)) & (large < large.constant(1.5)) & (small < small.constant(1.0));
  return {select(isNear, near, lowering::log(magnitude(z))), atan2(z.im, z.re)};
}

static Parts sqrtOf(Parts z) {
  Element zero = z.re.constant(0.0), size = magnitude(z);
  // Halves first: a sum of two large parts would overflow.
  Element root = lowering::sqrt(abs(z.re) * 0.5 + size * 0.5);
  Element isZero = root == zero;
  Element other = abs(z.im) / (select(isZero, root.constant(1.0), root) * 2.0);
  Element isLeft = z.re < zero;
  Element infinity = zero.constant(std::numeric_limits<double>::infinity());
  Element re = select(isInf(z.im), infinity, select(isLeft, other, root));
  Element im = select(isInf(z.im), infinity, select(isLeft, root, other));
  return {re, copysign(im, z.im)};
}

static Parts sinhOf(Parts z) { return {sinhOf(z.re) * cosOf(z.im), coshOf(z.re) * sinOf(z.im)}; }
static Parts coshOf(Parts z) { return {coshOf(z.re) * cosOf(z.im), sinhOf(z.re) * sinOf(z.im)}; }
static Parts tanhOf(Parts z) {
  Element th = tanh(z.re), t = apply<math::TanOp>(z.im);
  Element square = t * t, below = 1.0 + th * th * square, sech = 1.0 / coshOf(z.re);
  return {th * (1.0 + square) / below, t * sech * sech / below};
}

/// Kahan's formulas (Branch cuts for complex elementary functions, 1987).
static Parts asinhOf(Parts z) {
  Parts a = sqrtOf({1.0 + z.im, -z.re}), b = sqrtOf({1.0 - z.im, z.re});
  // asin(w) = atan2(re w, re(a b)) + i asinh(im(conj(a) b)) with w = z / i, turned back.
  Element re = a.re * b.im - a.im * b.re;
  return {asinhOf(re), atan2(z.im, a.re * b.re - a.im * b.im)};
}
static Parts acosOf(Parts z) {
  Parts a = sqrtOf({1.0 - z.re, -z.im}), b = sqrtOf({1.0 + z.re, z.im});
  return {2.0 * atan2(a.re, b.re), asinhOf(b.re * a.im - b.im * a.re)};
}
static Parts acoshOf(Parts z) {
  Parts a = sqrtOf({z.re - 1.0, z.im}), b = sqrtOf({z.re + 1.0, z.im});
  return {asinhOf(a.re * b.re + a.im * b.im), 2.0 * atan2(a.im, b.re)};
}
static Parts atanhOf(Parts z) {
  Element away = 1.0 - z.re, square = z.im * z.im;
  Element re = 0.25 * log1p(4.0 * z.re / (away * away + square));
  return {re, 0.5 * atan2(2.0 * z.im, away * (1.0 + z.re) - square)};
}

namespace kiln::lowering::complexes {

Element exp(Element z) { return expOf(Parts(z)).as(z); }
Element exp2(Element z) {
  Parts p(z);
  return expOf({p.re * std::numbers::ln2, p.im * std::numbers::ln2}).as(z);
}
Element expm1(Element z) {
  Parts p(z);
  Element half = sinOf(p.im * 0.5);
  return Parts(lowering::expm1(p.re) * cosOf(p.im) - 2.0 * half * half,
               lowering::exp(p.re) * sinOf(p.im))
      .as(z);
}
static Element scaledLog(Element z, double scale) {
  Parts p = logOf(Parts(z));
  return Parts(p.re * scale, p.im * scale).as(z);
}
Element log(Element z) { return logOf(Parts(z)).as(z); }
Element log2(Element z) { return scaledLog(z, 1 / std::numbers::ln2); }
Element log10(Element z) { return scaledLog(z, 1 / std::numbers::ln10); }
Element log1p(Element z) {
  Parts p(z);
  Element isSmall = hypot(p.re, p.im) < p.re.constant(0.5);
  Element re = 0.5 * lowering::log1p(p.re * (p.re + 2.0) + p.im * p.im);
  Parts shifted(p.re + 1.0, p.im);
  return Parts(select(isSmall, re, logOf(shifted).re), atan2(p.im, p.re + 1.0)).as(z);
}
Element sqrt(Element z) { return sqrtOf(Parts(z)).as(z); }
Element rsqrt(Element z) { return z.constant(1.0) / complexes::sqrt(z); }

Element sinh(Element z) { return sinhOf(Parts(z)).as(z); }
Element cosh(Element z) { return coshOf(Parts(z)).as(z); }
Element tanh(Element z) { return tanhOf(Parts(z)).as(z); }
Element sin(Element z) { return overI(sinhOf(timesI(Parts(z)))).as(z); }
Element cos(Element z) { return coshOf(timesI(Parts(z))).as(z); }
Element tan(Element z) { return overI(tanhOf(timesI(Parts(z)))).as(z); }
Element asinh(Element z) { return asinhOf(Parts(z)).as(z); }
Element acosh(Element z) { return acoshOf(Parts(z)).as(z); }
Element atanh(Element z) { return atanhOf(Parts(z)).as(z); }
Element asin(Element z) { return overI(asinhOf(timesI(Parts(z)))).as(z); }
Element acos(Element z) { return acosOf(Parts(z)).as(z); }
Element atan(Element z) { return overI(atanhOf(timesI(Parts(z)))).as(z); }

Element sigmoid(Element z) { return z.constant(1.0) / (z.constant(1.0) + complexes::exp(-z)); }
Element sinc(Element z) {
  Element scaled = z * z.constant(std::numbers::pi);
  Element isZero = z == z.constant(0.0), one = z.constant(1.0);
  return select(isZero, one, complexes::sin(scaled) / select(isZero, one, scaled));
}
Element pow(Element a, Element b) {
  Parts logarithm = logOf(Parts(a));
  return expOf(multiplyParts(Parts(b), logarithm)).as(a);
}
Element logaddexp(Element a, Element b) {
  Element aIsLess = real(a) < real(b);
  Element less = select(aIsLess, a, b), more = select(aIsLess, b, a);
  Element nan = real(a).constant(std::numeric_limits<double>::quiet_NaN());
  Element anyNan = isNan(real(a)) | isNan(imag(a)) | isNan(real(b)) | isNan(imag(b));
  Element near = complexes::log1p(complexes::exp(less - more)) + more;
  // Equal infinities have no difference; without either there is nothing to add.
  Element same = isInf(real(less)) & (real(less) == real(more));
  Element far = select(real(less) < real(less).constant(0), less,
                       complexes::log(complexes::exp(less) + complexes::exp(more)));
  return select(anyNan, makeComplex(nan, nan), select(same, far, near));
}
Element sgn(Element z) {
  Element size = abs(z), isZero = size == size.constant(0.0);
  Element divisor = select(isZero, size.constant(1.0), size);
  return makeComplex(real(z) / divisor, imag(z) / divisor);
}

} // namespace kiln::lowering::complexes
