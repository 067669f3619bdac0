// Circular functions and their inverses.
#include "MathBuilder.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/APInt.h"

using namespace mlir;
using namespace kiln::codegen;

namespace {
/// x == quadrant * pi/2 + r, |r| <= pi/4; the quadrant as an integer, of which two bits count.
struct ReducedAngle {
  Value quadrant, r;
};
} // namespace

/// Below this three parts of pi/2 and fused multiplies reduce an argument exactly enough.
static constexpr double maxQuickReduction = 281474976710656.0; // 2^48

static ReducedAngle reduceQuickly(const MathBuilder &m, Value x) {
  Value shifted = m.fma(x, m.c(0.6366197723675814), m.c(m.roundingMagic()));
  Value n = m.sub(shifted, m.c(m.roundingMagic()));
  Value r = m.fma(n, m.c(-1.5707963267948966), x);
  r = m.fma(n, m.c(-6.123233995736766e-17), r);
  r = m.fma(n, m.c(1.4973849048591698e-33), r);
  return {m.bits(shifted), r};
}

/// Payne and Hanek's reduction of one large finite number, on wide integers: of m * 2^e * 2/pi only
/// the two bits before the point and what comes after count, so only those bits of 2/pi are taken.
static ReducedAngle reduceExactly(OpBuilder &b, Location loc, Value x) {
  constexpr unsigned tableBits = 1216, windowBits = 192, fractionBits = windowBits - 2;
  llvm::APInt table(
      tableBits,
      "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2"
      "e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339"
      "f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea"
      "2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6bab",
      16);
  auto type = [&](unsigned width) { return b.getIntegerType(width); };
  auto constant = [&](unsigned width, const llvm::APInt &value) -> Value {
    return arith::ConstantOp::create(b, loc,
                                     b.getIntegerAttr(type(width), value.zextOrTrunc(width)));
  };
  auto number = [&](unsigned width, uint64_t value) {
    return constant(width, llvm::APInt(width, value));
  };
  Value bits = arith::BitcastOp::create(b, loc, type(64), x);
  Value mantissa = arith::AndIOp::create(b, loc, bits, number(64, (1ull << 52) - 1));
  mantissa = arith::OrIOp::create(b, loc, mantissa, number(64, 1ull << 52));
  Value exponent = arith::ShRUIOp::create(b, loc, bits, number(64, 52));
  exponent = arith::AndIOp::create(b, loc, exponent, number(64, 0x7ff));
  // x = mantissa * 2^(exponent - 1075). Smaller numbers may come here beside large ones; their
  // result is not used, but no shift may exceed the width.
  exponent = arith::MaxUIOp::create(b, loc, exponent, number(64, 1023));
  exponent = arith::MinUIOp::create(b, loc, exponent, number(64, 2046));
  Value shift =
      arith::SubIOp::create(b, loc, number(64, tableBits - fractionBits + 1075), exponent);
  Value window = arith::ShRUIOp::create(b, loc, constant(tableBits, table),
                                        arith::ExtUIOp::create(b, loc, type(tableBits), shift));
  window = arith::TruncIOp::create(b, loc, type(windowBits), window);
  Value wide = arith::ExtUIOp::create(b, loc, type(windowBits), mantissa);
  Value product = arith::MulIOp::create(b, loc, window, wide); // quadrants, modulo 4
  Value half = constant(windowBits, llvm::APInt::getOneBitSet(windowBits, fractionBits - 1));
  Value rounded = arith::AddIOp::create(b, loc, product, half);
  Value point = number(windowBits, fractionBits);
  Value n = arith::ShRUIOp::create(b, loc, rounded, point);
  Value rest = arith::SubIOp::create(b, loc, product, arith::ShLIOp::create(b, loc, n, point));
  // The fraction's two upper words.
  auto word = [&](unsigned at) -> Value {
    Value shifted = arith::ShRUIOp::create(b, loc, rest, number(windowBits, at));
    return arith::TruncIOp::create(b, loc, type(64), shifted);
  };
  MathBuilder m(b, loc, x.getType(), {});
  Value high = arith::SIToFPOp::create(b, loc, x.getType(), word(128));
  Value low = arith::UIToFPOp::create(b, loc, x.getType(), word(64));
  Value fraction = m.fma(low, m.c(std::ldexp(1, -126)), m.mul(high, m.c(std::ldexp(1, -62))));
  Value r = m.mul(fraction, m.c(1.5707963267948966));
  Value quadrant = arith::TruncIOp::create(b, loc, type(64), n);
  Value negative = m.lt(x, m.c(0));
  return {m.select(negative, m.isub(m.i(0), quadrant), quadrant), m.select(negative, m.neg(r), r)};
}

static ReducedAngle reduce(const MathBuilder &m, Value x) {
  OpBuilder &b = m.b;
  Location loc = m.loc;
  ReducedAngle quick = reduceQuickly(m, x);
  Value large = m.both(m.ge(m.abs(x), m.c(maxQuickReduction)), m.isFinite(x));
  auto vector = dyn_cast<VectorType>(m.type);
  Value any = large;
  if (vector)
    any = vector::ReductionOp::create(b, loc, vector::CombiningKind::OR, large);
  // Rare: one lane after another.
  auto branch = scf::IfOp::create(b, loc, TypeRange{quick.quadrant.getType(), quick.r.getType()},
                                  any, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc, ValueRange{quick.quadrant, quick.r});
  b.setInsertionPointToStart(branch.thenBlock());
  ReducedAngle exact = quick;
  if (vector) {
    auto count = [&](int64_t n) -> Value { return arith::ConstantIndexOp::create(b, loc, n); };
    auto loop = scf::ForOp::create(b, loc, count(0), count(vector.getNumElements()), count(1),
                                   ValueRange{quick.quadrant, quick.r},
                                   [&](OpBuilder &b, Location loc, Value i, ValueRange all) {
                                     Value lane = vector::ExtractOp::create(b, loc, x, i);
                                     ReducedAngle one = reduceExactly(b, loc, lane);
                                     Value quadrants =
                                         vector::InsertOp::create(b, loc, one.quadrant, all[0], i);
                                     Value rs = vector::InsertOp::create(b, loc, one.r, all[1], i);
                                     scf::YieldOp::create(b, loc, ValueRange{quadrants, rs});
                                   });
    exact = {loop.getResult(0), loop.getResult(1)};
  } else {
    exact = reduceExactly(b, loc, x);
  }
  exact.quadrant = m.select(large, exact.quadrant, quick.quadrant);
  exact.r = m.select(large, exact.r, quick.r);
  scf::YieldOp::create(b, loc, ValueRange{exact.quadrant, exact.r});
  return {branch.getResult(0), branch.getResult(1)};
}

// FDLIBM's k_sin.c and k_cos.c; for f32 Cephes' shorter ones.
static Value sinPolynomial(const MathBuilder &m, Value r) {
  Value z = m.mul(r, r);
  Value p = m.isF64() ? m.poly(z, {1.58969099521155010221e-10, -2.50507602534068634195e-08,
                                   2.75573137070700676789e-06, -1.98412698298579493134e-04,
                                   8.33333333332248946124e-03, -1.66666666666666324348e-01})
                      : m.poly(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  return m.fma(m.mul(p, z), r, r);
}

static Value cosPolynomial(const MathBuilder &m, Value r) {
  Value z = m.mul(r, r);
  Value p =
      m.isF64()
          ? m.poly(z, {-1.13596475577881948265e-11, 2.08757232129817482790e-09,
                       -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                       -1.38888888888741095749e-03, 4.16666666666666019037e-02, -0.5})
          : m.poly(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2, -0.5});
  return m.fma(p, z, m.c(1));
}

Value kiln::codegen::expandSinCos(const MathBuilder &m, Value x, bool isCos) {
  // f32 is reduced in f64: exact up to 2^48, and cheaper than in parts.
  MathBuilder wide = m.with(m.b.getF64Type());
  ReducedAngle reduced = reduce(wide, m.isF64() ? x : m.extend(x, wide.element));
  Value r = reduced.r, quadrant = reduced.quadrant;
  if (!m.isF64()) {
    r = wide.truncate(r, m.element);
    quadrant = arith::TruncIOp::create(m.b, m.loc, m.shaped(m.integer), quadrant);
  }
  if (isCos)
    quadrant = m.iadd(quadrant, m.i(1));
  Value odd = m.ine(m.iand(quadrant, m.i(1)), m.i(0));
  Value value = m.select(odd, cosPolynomial(m, r), sinPolynomial(m, r));
  // Two quadrants on the sign changes: bit 1 goes to the sign bit.
  Value sign = m.shl(m.iand(quadrant, m.i(2)), m.integer.getIntOrFloatBitWidth() - 2);
  value = m.fromBits(m.ixor(m.bits(value), sign));
  value = m.select(m.isFinite(x), value, m.nan());
  return isCos ? value : m.select(m.eq(x, m.c(0)), x, value);
}

Value kiln::codegen::expandTan(const MathBuilder &m, Value x) {
  ReducedAngle reduced = reduce(m, x);
  Value sine = sinPolynomial(m, reduced.r), cosine = cosPolynomial(m, reduced.r);
  Value odd = m.ine(m.iand(reduced.quadrant, m.i(1)), m.i(0));
  Value value = m.div(m.select(odd, m.neg(cosine), sine), m.select(odd, sine, cosine));
  value = m.select(m.isFinite(x), value, m.nan());
  return m.select(m.eq(x, m.c(0)), x, value);
}

/// atan of y/x >= 0, both >= 0 and not both infinite.
static Value atanRatio(const MathBuilder &m, Value y, Value x) {
  // Swap so that the ratio is at most 1, then turn by pi/8's tangent: |t| <= tan(pi/8).
  Value swap = m.gt(y, x);
  Value low = m.select(swap, x, y), high = m.select(swap, y, x);
  Value turn = m.gt(low, m.mul(high, m.c(0.41421356237309503)));
  // atan(low/high) = pi/4 + atan((low - high) / (low + high)).
  Value t = m.div(m.select(turn, m.sub(low, high), low), m.select(turn, m.add(low, high), high));
  Value z = m.mul(t, t);
  Value p = m.poly(z, {0.021135373157693246, -0.04348052215716462, 0.056883492268090106,
                       -0.06640233930429408, 0.07689953496306857, -0.09090773074808414,
                       0.11111106180455946, -0.14285714180976467, 0.1999999999885511,
                       -0.3333333333332844});
  Value result = m.fma(m.mul(p, z), t, t);
  result = m.add(result, m.select(turn, m.c(0.7853981633974483), m.c(0)));
  Value turned = m.add(m.sub(m.c(1.5707963267948966), result), m.c(6.123233995736766e-17));
  return m.select(swap, turned, result);
}

Value kiln::codegen::expandAtan(const MathBuilder &m, Value x) {
  return m.copysign(atanRatio(m, m.abs(x), m.c(1)), x);
}

Value kiln::codegen::expandAtan2(const MathBuilder &m, Value y, Value x) {
  Value ay = m.abs(y), ax = m.abs(x);
  // Quotients that are not numbers: 0/0 is 0, inf/inf is 1. The sum of large numbers must not
  // overflow, and denormal ones keep their bits.
  Value infinite = m.both(m.eq(ay, m.infinity()), m.eq(ax, m.infinity()));
  Value large = m.either(m.gt(ay, m.c(0x1p1022)), m.gt(ax, m.c(0x1p1022)));
  Value scale = m.select(large, m.c(0.5), m.c(1));
  ay = m.select(infinite, m.c(1), m.mul(ay, scale));
  ax = m.select(infinite, m.c(1), m.mul(ax, scale));
  Value zero = m.both(m.eq(ay, m.c(0)), m.eq(ax, m.c(0)));
  ax = m.select(zero, m.c(1), ax);
  Value angle = atanRatio(m, ay, ax);
  // The sign of x, of zeros too.
  Value leftward = m.lt(m.copysign(m.c(1), x), m.c(0));
  angle = m.select(leftward, m.sub(m.c(3.141592653589793), angle), angle);
  angle = m.copysign(angle, y);
  return m.select(m.either(m.isNaN(x), m.isNaN(y)), m.nan(), angle);
}

/// sqrt(1 - x^2), without cancellation.
static Value complement(const MathBuilder &m, Value x) {
  return m.sqrt(m.mul(m.sub(m.c(1), x), m.add(m.c(1), x)));
}

Value kiln::codegen::expandAsin(const MathBuilder &m, Value x) {
  return expandAtan2(m, x, complement(m, x));
}

Value kiln::codegen::expandAcos(const MathBuilder &m, Value x) {
  return expandAtan2(m, complement(m, x), x);
}
