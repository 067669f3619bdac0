// exp, log and what is made of them.
#include "MathBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace kiln::codegen;

namespace {
/// x == n*ln 2 + r with |r| <= ln 2 / 2. The lowest bits of `power` are n and what the magic number adds, those above them of no use.
struct ReducedExponent {
  Value power, r;
};
} // namespace

/// x + powerMagic() has the integer nearest to x, and twice the bias of exponents, in its lowest bits.
static double powerMagic(const MathBuilder &m) { return m.roundingMagic() + 2. * m.bias(); }

/// The number whose exponent has the lowest bits of `field`.
static Value fromExponent(const MathBuilder &m, Value field) {
  return m.fromBits(m.shl(field, m.mantissaBits()));
}

static ReducedExponent reduceByLn2(const MathBuilder &m, Value x, double magic) {
  Value shifted = m.fma(x, m.c(1.4426950408889634), m.c(magic));
  Value number = m.sub(shifted, m.c(magic));
  double high = m.isF64() ? 6.93147180369123816490e-01 : 0.69314718246459960938;
  double low = m.isF64() ? 1.90821492927058770002e-10 : -1.904654323148236017e-09;
  Value r = m.fma(number, m.c(-high), x);
  return {m.bits(shifted), m.fma(number, m.c(-low), r)};
}

/// exp(r), |r| <= ln 2 / 2. f32: minimax, 0.87 ulp with the reduction; f64: Taylor.
static Value expPolynomial(const MathBuilder &m, Value r) {
  if (!m.isF64())
    return m.poly(
        r, {1.37805939e-3, 8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1, 1.0, 1.0});
  SmallVector<double> coefficients;
  double factorial = 1;
  for (int k = 0; k <= 13; ++k) {
    coefficients.insert(coefficients.begin(), 1 / factorial);
    factorial *= k + 1;
  }
  return m.poly(r, coefficients);
}

/// p * 2^n in two steps: 2^n alone may be infinite or denormal where the product is not.
static Value scale(const MathBuilder &m, Value p, Value power) {
  if (m.has.scale) {
    Value n = m.isub(power, m.bits(m.c(powerMagic(m))));
    if (m.isF64())
      n = arith::TruncIOp::create(m.b, m.loc, m.shaped(m.b.getI32Type()), n);
    // The dialect's own op takes scalars only.
    return LLVM::CallIntrinsicOp::create(m.b, m.loc, p.getType(), m.b.getStringAttr("llvm.ldexp"),
                                         ValueRange{p, n})
        .getResult(0);
  }
  Value half = m.shr(power, 1);
  return m.mul(m.mul(p, fromExponent(m, half)), fromExponent(m, m.isub(power, half)));
}

/// exp(x) where it neither overflows nor underflows by more than a little. `flushes`: denormal
/// results may be 0.
static Value expInRange(const MathBuilder &m, Value x, bool flushes = false) {
  if (m.has.exp2 && !m.isF64()) {
    // 2^(h + l), h the rounded x / ln 2: 2^h * (1 + l * ln 2).
    Value high = m.mul(x, m.c(1.4426950216293335));
    Value low = m.fma(x, m.c(1.4426950216293335), m.neg(high));
    low = m.fma(x, m.c(1.92596298909109e-8), low);
    StringRef name = flushes ? "llvm.nvvm.ex2.approx.ftz" : "llvm.nvvm.ex2.approx";
    Value p = m.intrinsic(name, high);
    return m.mul(p, m.fma(low, m.c(0.6931471805599453), m.c(1)));
  }
  ReducedExponent reduced = reduceByLn2(m, x, powerMagic(m));
  return scale(m, expPolynomial(m, reduced.r), reduced.power);
}

Value kiln::codegen::expandExp(const MathBuilder &m, Value x, bool flushes) {
  // Beyond these the result is 0 or infinite.
  return expInRange(m, m.isF64() ? m.clamp(x, -746, 710) : m.clamp(x, -104, 89), flushes);
}

Value kiln::codegen::expandWeight(const MathBuilder &m, Value x) {
  if (m.isF64() || m.has.exp2)
    return expandExp(m, x);
  // Below, 2^n has an exponent of 0, which makes it 0.
  x = m.select(m.lt(x, m.c(-88)), m.c(-88), x);
  // 2^(n + f), |f| <= 1/2. The error of log2 e grows as the weight shrinks, to less than a last bit of weights near 1.
  Value log2E = m.c(1.4426950408889634), magic = m.c(m.roundingMagic() + m.bias());
  Value shifted = m.fma(x, log2E, magic);
  Value f = m.fma(x, log2E, m.sub(magic, shifted));
  Value p = m.poly(
      f, {1.326472382e-3, 9.671513923e-3, 5.550733209e-2, 2.402224541e-1, 6.931471437e-1, 1.0});
  return m.mul(p, fromExponent(m, m.bits(shifted)));
}

Value kiln::codegen::expandExp2(const MathBuilder &m, Value x) {
  Value clamped = m.clamp(x, -1076, 1025);
  Value shifted = m.add(clamped, m.c(powerMagic(m)));
  Value fraction = m.sub(clamped, m.sub(shifted, m.c(powerMagic(m))));
  // fraction * ln 2, with the product's error: exp(h + l) = exp(h) * (1 + l).
  Value high = m.mul(fraction, m.c(0.6931471805599453));
  Value low = m.fma(fraction, m.c(0.6931471805599453), m.neg(high));
  low = m.fma(fraction, m.c(2.3190468138462996e-17), low);
  Value p = expPolynomial(m, high);
  return scale(m, m.fma(p, low, p), m.bits(shifted));
}

Value kiln::codegen::expandExpM1(const MathBuilder &m, Value x) {
  Value clamped = m.isF64() ? m.clamp(x, -40, 710) : m.clamp(x, -20, 89);
  ReducedExponent reduced = reduceByLn2(m, clamped, powerMagic(m));
  Value r = reduced.r;
  // exp(r) - 1 = r + r^2 * q(r).
  Value q;
  if (m.isF64()) {
    SmallVector<double> coefficients;
    double factorial = 2;
    for (int k = 2; k <= 13; ++k) {
      coefficients.insert(coefficients.begin(), 1 / factorial);
      factorial *= k + 1;
    }
    q = m.poly(r, coefficients);
  } else {
    q = m.poly(r, {1.97350979e-4, 1.39309070e-3, 8.33343994e-3, 4.16668020e-2, 1.66666716e-1,
                   4.99999970e-1});
  }
  Value p = m.fma(q, m.mul(r, r), r);
  // 2^n * (p + 1) - 1, halved so that n may be one more than the largest exponent.
  Value half = fromExponent(m, m.isub(reduced.power, m.i(m.bias() + 1)));
  Value result = m.fma(p, half, m.sub(half, m.c(0.5)));
  result = m.add(result, result);
  // The sign of a zero.
  return m.select(m.eq(x, m.c(0)), x, result);
}

/// x == 2^e * f, sqrt(1/2) <= f < sqrt(2) (f32: 2/3 <= f < 4/3), for positive normal or denormal x.
static void splitExponent(const MathBuilder &m, Value x, Value &e, Value &f) {
  double smallest = m.isF64() ? 2.2250738585072014e-308 : 1.175494351e-38;
  double up = m.isF64() ? 18014398509481984.0 : 8388608.0; // 2^54, 2^23
  Value denormal = m.lt(x, m.c(smallest));
  Value normal = m.select(denormal, m.mul(x, m.c(up)), x);
  Value offset = m.select(denormal, m.c(m.isF64() ? -54 : -23), m.c(0));
  Value low = m.bits(m.c(m.isF64() ? 0.70710678118654752 : 0.666666667));
  Value exponent = m.sra(m.isub(m.bits(normal), low), m.mantissaBits());
  f = m.fromBits(m.isub(m.bits(normal), m.shl(exponent, m.mantissaBits())));
  // Small integer to number.
  Value magic = m.c(m.roundingMagic());
  Value number = m.sub(m.fromBits(m.iadd(m.bits(magic), exponent)), magic);
  e = m.add(number, offset);
}

/// log's values where x is not positive and finite.
static Value logSpecial(const MathBuilder &m, Value x, Value result) {
  result = m.select(m.lt(x, m.infinity()), result, x); // infinity and NaN
  result = m.select(m.lt(x, m.c(0)), m.nan(), result);
  return m.select(m.eq(x, m.c(0)), m.c(-INFINITY), result);
}

Value kiln::codegen::expandLog(const MathBuilder &m, Value x) {
  Value e, f;
  splitExponent(m, x, e, f);
  f = m.sub(f, m.c(1));
  Value result;
  if (m.isF64()) {
    // As in FDLIBM's e_log.c: log(1+f) = f - f^2/2 + s*(f^2/2 + R(s^2)), s = f/(2+f).
    Value s = m.div(f, m.add(f, m.c(2)));
    Value z = m.mul(s, s);
    Value rest = m.mul(
        z, m.poly(z, {1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                      2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                      6.666666666666735130e-01}));
    Value halfSquare = m.mul(m.c(0.5), m.mul(f, f));
    Value low = m.fma(s, m.add(halfSquare, rest), m.mul(e, m.c(1.90821492927058770002e-10)));
    Value inner = m.sub(m.sub(halfSquare, low), f);
    result = m.fma(e, m.c(6.93147180369123816490e-01), m.neg(inner));
  } else {
    // Minimax on [-1/3, 1/3], 0.86 ulp.
    Value s = m.mul(f, f);
    Value r = m.poly(s, {-0.130310059, -0.121489234, -0.166846126, -0.249996200});
    Value t = m.poly(s, {0.140869141, 0.139814854, 0.200120345});
    r = m.fma(t, f, r);
    r = m.fma(r, f, m.c(0.333331972));
    r = m.fma(r, f, m.c(-0.5));
    r = m.fma(r, s, f);
    result = m.fma(e, m.c(0.693147182), r);
  }
  return logSpecial(m, x, result);
}

Value kiln::codegen::expandLog1p(const MathBuilder &m, Value x) {
  // log(u) + (x - (u - 1)) / u for the rounded u = 1 + x.
  Value u = m.add(x, m.c(1));
  Value lost = m.sub(x, m.sub(u, m.c(1)));
  Value log = expandLog(m, u);
  Value ordinary = m.both(m.gt(u, m.c(0)), m.lt(u, m.infinity()));
  Value result = m.select(ordinary, m.add(log, m.div(lost, u)), log);
  return m.select(m.eq(x, m.c(0)), x, result);
}

namespace {
/// An unevaluated sum, |low| small against |high|.
struct Pair {
  Value high, low;
};
} // namespace

static Pair quickTwoSum(const MathBuilder &m, Value x, Value y) {
  Value sum = m.add(x, y);
  return {sum, m.add(m.sub(x, sum), y)};
}

static Pair twoSum(const MathBuilder &m, Value x, Value y) {
  Value sum = m.add(x, y);
  Value part = m.sub(sum, x);
  return {sum, m.add(m.sub(x, m.sub(sum, part)), m.sub(y, part))};
}

/// log(x) to about 2^-66, for positive finite f64.
static Pair logPair(const MathBuilder &m, Value x) {
  Value e, f;
  splitExponent(m, x, e, f);
  // s = (f - 1) / (f + 1), log(f) = 2 s + s^3 (2/3 + 2/5 s^2 + …).
  Value numerator = m.sub(f, m.c(1));
  Value denominator = m.add(f, m.c(1));
  Value lost = m.sub(f, m.sub(denominator, m.c(1)));
  Value s = m.div(numerator, denominator);
  Value rest = m.fma(m.neg(s), denominator, numerator);
  Value sLow = m.div(m.fma(m.neg(s), lost, rest), denominator);
  Value z = m.mul(s, s);
  SmallVector<double> coefficients;
  for (int k = 11; k >= 0; --k)
    coefficients.push_back(2.0 / (2 * k + 3));
  Value tail = m.mul(m.mul(s, z), m.poly(z, coefficients));
  tail = m.fma(m.c(2), sLow, tail);
  tail = m.fma(e, m.c(1.90821492927058770002e-10), tail);
  // e * high(ln 2) is exact: its lowest bits are zero.
  Pair sum = twoSum(m, m.mul(e, m.c(6.93147180369123816490e-01)), m.mul(m.c(2), s));
  return quickTwoSum(m, sum.high, m.add(sum.low, tail));
}

Value kiln::codegen::expandLogBase(const MathBuilder &m, Value x, double base) {
  Pair log = logPair(m, x);
  // 1 / ln(base), rounded to f64 and the error of that.
  double high = base == 2 ? 1.4426950408889634 : 0.4342944819032518;
  double low = base == 2 ? 2.0355273740931033e-17 : 1.098319650216765e-17;
  Value product = m.mul(log.high, m.c(high));
  Value error = m.fma(log.high, m.c(high), m.neg(product));
  error = m.fma(log.high, m.c(low), error);
  error = m.fma(log.low, m.c(high), error);
  return logSpecial(m, x, m.add(product, error));
}

Value kiln::codegen::expandPow(const MathBuilder &m, Value x, Value y) {
  Value magnitude = m.abs(x);
  Pair log = logPair(m, magnitude);
  Value ordinary = m.both(m.gt(magnitude, m.c(0)), m.lt(magnitude, m.infinity()));
  Value infiniteLog = m.select(m.eq(magnitude, m.c(0)), m.c(-INFINITY), magnitude);
  Value high = m.select(ordinary, log.high, infiniteLog);
  Value product = m.mul(y, high);
  Value error = m.fma(y, log.low, m.fma(y, high, m.neg(product)));
  // Only where it matters: elsewhere it may be NaN.
  error = m.select(m.lt(m.abs(product), m.c(1e4)), error, m.c(0));
  // 1 to the power of infinity.
  Value one = m.both(m.eq(magnitude, m.c(1)), m.eq(y, y));
  product = m.select(one, m.c(0), product);
  Value result = expandExp(m, product);
  result = m.select(m.isFinite(result), m.fma(result, error, result), result);

  Value isInteger = m.eq(m.floor(y), y);
  Value half = m.mul(y, m.c(0.5));
  Value isOdd = m.both(isInteger, m.ne(m.floor(half), half));
  result = m.select(isOdd, m.copysign(result, x), result);
  Value undefined = m.both(m.lt(x, m.c(0)), m.gt(x, m.c(-INFINITY)));
  undefined = m.both(undefined, m.ne(m.floor(y), y));
  result = m.select(undefined, m.nan(), result);
  return m.select(m.either(m.eq(y, m.c(0)), m.eq(x, m.c(1))), m.c(1), result);
}

/// 1 - 2 / x for 1 <= x < 2^127: a GPU's reciprocal, of 1 ulp, and a Newton step.
static Value oneMinusTwice(const MathBuilder &m, Value x) {
  if (!m.has.exp2)
    return m.sub(m.c(1), m.div(m.c(2), x));
  Value y = m.intrinsic("llvm.nvvm.rcp.approx.ftz.f", x);
  y = m.fma(m.fma(m.neg(x), y, m.c(1)), y, y);
  return m.fma(m.c(-2), y, m.c(1));
}

Value kiln::codegen::expandTanh(const MathBuilder &m, Value x) {
  Value t = m.abs(x);
  // 1 - 2 / (exp(2t) + 1), and near 0, where that cancels, through expm1 or a polynomial.
  if (m.isF64()) {
    Value e = expandExpM1(m, m.mul(m.c(2), m.clamp(t, 0, 20)));
    return m.copysign(m.div(e, m.add(e, m.c(2))), x);
  }
  if (m.has.tables)
    return tanhByPieces(m, x);
  Value bounded = m.select(m.gt(t, m.c(44)), m.c(44), t); // NaN stays
  Value e = expInRange(m, m.add(bounded, bounded));
  Value large = oneMinusTwice(m, m.add(e, m.c(1)));
  Value s = m.mul(x, x);
  // Minimax, 0.93 ulp; above, the errors of e count for less than half as much.
  Value small = m.poly(s, {1.5847561e-3, -7.40955719e-3, 2.1302991e-2, -5.38523316e-2, 1.3332221e-1,
                           -3.33332974e-1, 0.0});
  small = m.fma(small, x, x);
  return m.select(m.gt(t, m.c(0.8)), m.copysign(large, x), small);
}

Value kiln::codegen::expandSinh(const MathBuilder &m, Value x) {
  // (e + e/(e+1)) / 2 with e = expm1|x|; from exp(|x|/2) squared where that overflows.
  Value t = m.abs(x);
  Value e = expandExpM1(m, m.clamp(t, 0, 700));
  Value small = m.mul(m.c(0.5), m.add(e, m.div(e, m.add(e, m.c(1)))));
  Value root = expandExp(m, m.mul(m.c(0.5), t));
  Value large = m.mul(m.mul(m.c(0.5), root), root);
  Value result = m.select(m.lt(t, m.c(700)), small, large);
  return m.copysign(result, x);
}

Value kiln::codegen::expandCosh(const MathBuilder &m, Value x) {
  Value t = m.abs(x);
  Value e = expandExp(m, m.clamp(t, 0, 700));
  Value small = m.mul(m.c(0.5), m.add(e, m.div(m.c(1), e)));
  Value root = expandExp(m, m.mul(m.c(0.5), t));
  Value large = m.mul(m.mul(m.c(0.5), root), root);
  return m.select(m.lt(t, m.c(700)), small, large);
}

Value kiln::codegen::expandAsinh(const MathBuilder &m, Value x) {
  // log1p(t + t^2 / (1 + sqrt(1 + t^2))), log(2t) where the square would overflow.
  Value t = m.abs(x);
  Value square = m.mul(t, t);
  Value root = m.sqrt(m.add(square, m.c(1)));
  Value small = expandLog1p(m, m.add(t, m.div(square, m.add(root, m.c(1)))));
  Value large = m.add(expandLog(m, t), m.c(0.6931471805599453));
  return m.copysign(m.select(m.lt(t, m.c(1e8)), small, large), x);
}

Value kiln::codegen::expandAcosh(const MathBuilder &m, Value x) {
  // log1p(t + sqrt(2t + t^2)), t = x - 1.
  Value t = m.sub(x, m.c(1));
  Value root = m.sqrt(m.fma(t, t, m.mul(m.c(2), t)));
  Value small = expandLog1p(m, m.add(t, root));
  Value large = m.add(expandLog(m, x), m.c(0.6931471805599453));
  Value result = m.select(m.lt(x, m.c(1e8)), small, large);
  return m.select(m.lt(x, m.c(1)), m.nan(), result);
}

Value kiln::codegen::expandAtanh(const MathBuilder &m, Value x) {
  // log1p(2t / (1 - t)) / 2.
  Value t = m.abs(x);
  Value ratio = m.div(m.mul(m.c(2), t), m.sub(m.c(1), t));
  return m.copysign(m.mul(m.c(0.5), expandLog1p(m, ratio)), x);
}

Value kiln::codegen::expandCbrt(const MathBuilder &m, Value x) {
  Value t = m.abs(x);
  Value ordinary = m.both(m.gt(t, m.c(0)), m.lt(t, m.infinity()));
  // The Newton step needs all bits of t: denormals are scaled up by 2^54, the result down by 2^18.
  Value small = m.lt(t, m.c(2.2250738585072014e-308));
  Value magnitude = t;
  t = m.select(small, m.mul(t, m.c(18014398509481984.0)), t);
  Value y = expandExp(m, m.mul(expandLog(m, t), m.c(1.0 / 3)));
  // One Newton step: y - (y^3 - t) / (3 y^2).
  Value square = m.mul(y, y);
  y = m.sub(y, m.div(m.fma(square, y, m.neg(t)), m.mul(m.c(3), square)));
  y = m.select(small, m.mul(y, m.c(1.0 / 262144)), y);
  return m.copysign(m.select(ordinary, y, magnitude), x);
}
