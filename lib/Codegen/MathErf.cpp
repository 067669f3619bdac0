// The error function and its complement.
#include "MathBuilder.h"

using namespace mlir;
using namespace kiln::codegen;

/// exp(x^2) * erfc(x), 0.84 <= x <= 28: a polynomial in (x-4)/(x+4), over 1 + 2x.
static Value scaledErfc(const MathBuilder &m, Value x) {
  Value t = m.div(m.sub(x, m.c(4)), m.add(x, m.c(4)));
  Value p = m.poly(t, {6.229444678537811e-08,   4.3553870830173186e-08, -7.582477269324604e-07,
                       3.184411295879484e-07,   5.659530454152595e-06,  -1.123302957947256e-05,
                       -2.4377021899648958e-05, 0.00015062467782752406, -0.00019926274420049308,
                       -0.0007577738051059754,  0.005031970995456518,   -0.016197734001749845,
                       0.03716751543568189,     -0.0663303658159257,    0.09373283500391086,
                       -0.1010390660361689,     0.06809705425455394,    0.015379652102617635,
                       -0.1396211168405615,     1.2329951186255526});
  return m.div(p, m.fma(m.c(2), x, m.c(1)));
}

/// erf(x), |x| <= 1.
static Value smallErf(const MathBuilder &m, Value x) {
  Value p =
      m.poly(m.mul(x, x), {-7.795898827002142e-10, 1.3720064546777686e-08, -1.6208483801871705e-07,
                           1.6447424703317362e-06, -1.492473690741966e-05, 0.00012055294904839707,
                           -0.0008548325975389692, 0.0052239776071164225, -0.02686617064323777,
                           0.11283791670945006, -0.37612638903183543, 1.1283791670955126});
  return m.mul(p, x);
}

/// erfc(x), 0.84 <= x.
static Value largeErfc(const MathBuilder &m, Value x) {
  Value bounded = m.clamp(x, 0.84, 28);
  // exp(-(h + l)) = exp(-h) * (1 - l), for the square and its error.
  Value high = m.mul(bounded, bounded);
  Value low = m.fma(bounded, bounded, m.neg(high));
  Value e = expandExp(m, m.neg(high));
  e = m.fma(m.neg(low), e, e);
  return m.mul(e, scaledErfc(m, bounded));
}

Value kiln::codegen::expandErf(const MathBuilder &m, Value x) {
  Value t = m.abs(x);
  if (m.isF64()) {
    Value large = m.sub(m.c(1), largeErfc(m, t));
    Value result = m.select(m.gt(t, m.c(1)), m.copysign(large, x), smallErf(m, x));
    return result;
  }
  if (m.has.tables)
    return erfByPieces(m, x);
  // Minimax, 1 ulp: x*P(x^2), or 1 - exp(Q(|x|)).
  Value s = m.mul(x, x);
  Value r = m.fma(m.c(-1.72853470e-5), t, m.c(3.83197126e-4));
  Value u = m.fma(m.c(-3.88396438e-3), t, m.c(2.42546219e-2));
  r = m.fma(r, s, u);
  r = m.fma(r, t, m.c(-1.06777877e-1));
  r = m.fma(r, t, m.c(-6.34846687e-1));
  r = m.fma(r, t, m.c(-1.28717512e-1));
  r = m.fma(r, t, m.neg(t));
  Value large = m.copysign(m.sub(m.c(1), expandExp(m, r)), x);
  Value small = m.poly(s, {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1,
                           -3.76125336e-1, 1.28379166e-1});
  small = m.fma(small, x, x);
  return m.select(m.gt(t, m.c(0.927734375)), large, small);
}

Value kiln::codegen::expandErfc(const MathBuilder &m, Value x) {
  Value t = m.abs(x);
  Value large = largeErfc(m, t);
  large = m.select(m.lt(x, m.c(0)), m.sub(m.c(2), large), large);
  large = m.select(m.gt(x, m.c(27.5)), m.c(0), large);
  Value small = m.sub(m.c(1), smallErf(m, x));
  return m.select(m.gt(t, m.c(0.84)), large, small);
}
