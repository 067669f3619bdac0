// The remainder of a division, which is exact in floating point.
#include "MathBuilder.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln::codegen;

/// floor(log2(x)) for positive, finite x.
static Value exponentOf(const MathBuilder &m, Value x) {
  int64_t shift = m.mantissaBits() + 2;
  double tiny = std::ldexp(1.0, 1 - m.bias());
  Value isSubnormal = m.lt(x, m.c(tiny));
  Value scaled = m.select(isSubnormal, m.mul(x, m.c(std::ldexp(1.0, shift))), x);
  Value field = m.sra(m.bits(scaled), m.mantissaBits());
  return m.isub(field, m.select(isSubnormal, m.i(m.bias() + shift), m.i(m.bias())));
}

static Value anyOf(const MathBuilder &m, Value condition) {
  if (!isa<VectorType>(condition.getType()))
    return condition;
  return vector::ReductionOp::create(m.b, m.loc, vector::CombiningKind::OR, condition);
}

/// One step of long division: takes `divisor` times a power of two, and that times a whole number
/// below 2^mantissaBits, from `rest`. The fused product is exact, because what is left is a
/// multiple of the smaller unit of the two and no larger than either. The quotient may have been
/// rounded up to the next integer, which makes the rest negative.
static Value divideOnce(const MathBuilder &m, Value rest, Value divisor) {
  // Lanes whose rest is 0 have nothing to do: any exponent will do.
  Value excess =
      m.isub(m.isub(exponentOf(m, rest), exponentOf(m, divisor)), m.i(m.mantissaBits() - 1));
  Value shift = arith::MaxSIOp::create(m.b, m.loc, excess, m.i(0));
  // 2^shift itself may be out of range.
  Value half = m.sra(shift, 1);
  Value scaled = m.mul(m.mul(divisor, m.exponent(half)), m.exponent(m.isub(shift, half)));
  Value quotient = m.floor(m.div(rest, scaled));
  Value left = m.fma(m.neg(quotient), scaled, rest);
  return m.select(m.lt(left, m.c(0)), m.add(left, scaled), left);
}

/// C's fmod, as a loop that nearly always runs once: until no lane's rest reaches its divisor.
Value kiln::codegen::expandFmod(const MathBuilder &m, Value x, Value y) {
  Value magnitude = m.abs(x), divisor = m.abs(y);
  Value isDivision = m.both(m.both(m.isFinite(x), m.isFinite(y)), m.gt(divisor, m.c(0)));
  Value start = m.select(isDivision, magnitude, m.c(0));
  Value safe = m.select(isDivision, divisor, m.c(1));
  auto loop = scf::WhileOp::create(
      m.b, m.loc, TypeRange(m.type), ValueRange(start),
      [&](OpBuilder &b, Location loc, ValueRange rest) {
        scf::ConditionOp::create(b, loc, anyOf(m, m.ge(rest[0], safe)), rest);
      },
      [&](OpBuilder &b, Location loc, ValueRange rest) {
        scf::YieldOp::create(b, loc, divideOnce(m, rest[0], safe));
      });
  // An infinite divisor leaves all of x; an infinite x, a divisor of 0 and NaN leave NaN.
  Value isWhole = m.both(m.isFinite(x), m.eq(divisor, m.infinity()));
  Value other = m.select(isWhole, magnitude, m.nan());
  return m.copysign(m.select(isDivision, loop.getResult(0), other), x);
}
