// codegen-expand-math: elementary functions become polynomials of vectors, without calls.
#include "MathBuilder.h"
#include "Number.h"
#include "kiln/Codegen/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kiln::codegen {
#define GEN_PASS_DEF_CODEGENEXPANDMATH
#include "kiln/Codegen/Passes.h.inc"
} // namespace kiln::codegen

using namespace mlir;
using namespace kiln::codegen;

/// Functions that f32 computes in its own precision; the others are rare and go through f64.
static bool hasF32Form(Operation *op) {
  return isa<math::ExpOp, math::ExpM1Op, math::LogOp, math::Log1pOp, math::TanhOp, math::ErfOp,
             math::SinOp, math::CosOp, math::RsqrtOp, math::SqrtOp, math::FmaOp, arith::RemFOp>(op);
}

/// Ops that LLVM turns into instructions.
static bool isLeftToLLVM(Operation *op) {
  return isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::FloorOp, math::TruncOp,
             math::RoundEvenOp, math::RoundOp, math::SqrtOp, math::FmaOp, math::CopySignOp,
             math::CountLeadingZerosOp, math::CountTrailingZerosOp, math::CtPopOp, math::IsNaNOp,
             math::IsInfOp, math::IsFiniteOp, math::IsNormalOp>(op);
}

/// PyTorch's own special cases, which are exact.
static Value expandConstantPow(const MathBuilder &m, Value x, Value y) {
  auto constant = y.getDefiningOp<arith::ConstantOp>();
  if (!constant)
    return {};
  Attribute value = constant.getValue();
  if (auto splat = dyn_cast<SplatElementsAttr>(value))
    value = splat.getSplatValue<Attribute>();
  auto number = dyn_cast<FloatAttr>(value);
  if (!number)
    return {};
  double exponent = number.getValueAsDouble();
  if (exponent == 2)
    return m.mul(x, x);
  if (exponent == 3)
    return m.mul(m.mul(x, x), x);
  if (exponent == 0.5)
    return m.sqrt(x);
  if (exponent == -0.5)
    return m.div(m.c(1), m.sqrt(x));
  if (exponent == -1)
    return m.div(m.c(1), x);
  if (exponent == -2)
    return m.div(m.c(1), m.mul(x, x));
  return {};
}

/// A sum with a number of at least 1, or null.
static arith::AddFOp getSumWithOne(Operation *op) {
  auto sum = dyn_cast_if_present<arith::AddFOp>(op);
  auto isOne = [](Value value) { return getNumber(value).value_or(0) >= 1; };
  return sum && (isOne(sum.getLhs()) || isOne(sum.getRhs())) ? sum : arith::AddFOp();
}

static Value expand(const MathBuilder &m, Operation *op, ValueRange operands) {
  Value x = operands[0];
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::ExpOp exp) {
        if (bitEnumContainsAll(exp.getFastmath(), arith::FastMathFlags::afn))
          return expandWeight(m, x);
        // Beside a 1, denormal numbers are lost anyway.
        bool flushes = llvm::all_of(op->getUsers(), getSumWithOne);
        return expandExp(m, x, flushes);
      })
      .Case([&](math::Exp2Op) { return expandExp2(m, x); })
      .Case([&](math::ExpM1Op) { return expandExpM1(m, x); })
      .Case([&](math::LogOp) { return expandLog(m, x); })
      .Case([&](math::Log2Op) { return expandLogBase(m, x, 2); })
      .Case([&](math::Log10Op) { return expandLogBase(m, x, 10); })
      .Case([&](math::Log1pOp) { return expandLog1p(m, x); })
      .Case([&](math::TanhOp) { return expandTanh(m, x); })
      .Case([&](math::ErfOp) { return expandErf(m, x); })
      .Case([&](math::ErfcOp) { return expandErfc(m, x); })
      .Case([&](math::SinOp) { return expandSinCos(m, x, false); })
      .Case([&](math::CosOp) { return expandSinCos(m, x, true); })
      .Case([&](math::TanOp) { return expandTan(m, x); })
      .Case([&](math::AtanOp) { return expandAtan(m, x); })
      .Case([&](math::Atan2Op) { return expandAtan2(m, x, operands[1]); })
      .Case([&](math::AsinOp) { return expandAsin(m, x); })
      .Case([&](math::AcosOp) { return expandAcos(m, x); })
      .Case([&](math::SinhOp) { return expandSinh(m, x); })
      .Case([&](math::CoshOp) { return expandCosh(m, x); })
      .Case([&](math::AsinhOp) { return expandAsinh(m, x); })
      .Case([&](math::AcoshOp) { return expandAcosh(m, x); })
      .Case([&](math::AtanhOp) { return expandAtanh(m, x); })
      .Case([&](math::CbrtOp) { return expandCbrt(m, x); })
      .Case<math::PowFOp, math::FPowIOp>([&](auto) { return expandPow(m, x, operands[1]); })
      .Case([&](arith::RemFOp) { return expandFmod(m, x, operands[1]); })
      .Case([&](math::SqrtOp) { return m.sqrt(x); })
      .Case([&](math::FmaOp) { return m.fma(x, operands[1], operands[2]); })
      .Case([&](math::RsqrtOp) { return m.div(m.c(1), m.sqrt(x)); })
      .Default([](Operation *) { return Value(); });
}

/// In a wider type where there is no form in this one; one step at a time, since LLVM has no inline
/// code for f64 to f16.
static Value expandFloat(const MathBuilder &m, Operation *op, ArrayRef<Value> operands) {
  bool isSmall = m.element.getIntOrFloatBitWidth() < 32;
  if (!isSmall && isa<math::PowFOp>(op))
    if (Value value = expandConstantPow(m, operands[0], operands[1]))
      return value;
  if (m.isF64() || (m.element.isF32() && hasF32Form(op)))
    return expand(m, op, operands);
  MathBuilder wide = m.with(isSmall ? Type(m.b.getF32Type()) : Type(m.b.getF64Type()));
  SmallVector<Value> extended;
  for (Value operand : operands)
    extended.push_back(m.extend(operand, wide.element));
  Value value = expandFloat(wide, op, extended);
  return value ? wide.truncate(value, m.element) : Value();
}

/// base^exponent on integers by squaring, as many steps as an exponent can have bits below 64; a
/// negative exponent gives 0, but 1 and -1 keep their powers.
static Value expandIntegerPow(OpBuilder &b, Location loc, Value base, Value exponent) {
  Type type = base.getType();
  unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  auto constant = [&](int64_t value) -> Value {
    TypedAttr attr = b.getIntegerAttr(getElementTypeOrSelf(type), value);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = SplatElementsAttr::get(vector, Attribute(attr));
    return arith::ConstantOp::create(b, loc, attr);
  };
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  };
  Value zero = constant(0), one = constant(1);
  Value result = one, square = base, left = exponent;
  // Beyond bit 6 only bases 0, 1 and -1 and wrapped values are left; all bits are kept for those.
  for (unsigned bit = 0; bit + 1 < width; ++bit) {
    Value odd = compare(arith::CmpIPredicate::ne, arith::AndIOp::create(b, loc, left, one), zero);
    result =
        arith::SelectOp::create(b, loc, odd, arith::MulIOp::create(b, loc, result, square), result);
    square = arith::MulIOp::create(b, loc, square, square);
    left = arith::ShRUIOp::create(b, loc, left, one);
  }
  Value odd = compare(arith::CmpIPredicate::ne, arith::AndIOp::create(b, loc, exponent, one), zero);
  Value minusOne = constant(-1);
  Value inverse = arith::SelectOp::create(
      b, loc, compare(arith::CmpIPredicate::eq, base, one), one,
      arith::SelectOp::create(b, loc, compare(arith::CmpIPredicate::eq, base, minusOne),
                              arith::SelectOp::create(b, loc, odd, minusOne, one), zero));
  return arith::SelectOp::create(b, loc, compare(arith::CmpIPredicate::slt, exponent, zero),
                                 inverse, result);
}

/// True if nobody sees more of `value` than two bytes hold.
static bool isRoundedToTwoBytes(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    auto round = dyn_cast<arith::TruncFOp>(user);
    return round && round.getType().isIntOrFloat() && round.getType().getIntOrFloatBitWidth() == 16;
  });
}

/// Instructions of GPUs for f32: 1 / x to 1 ulp, 2^x to 2 ulp. They take denormal numbers for 0.
static constexpr StringLiteral reciprocalName = "llvm.nvvm.rcp.approx.ftz.f",
                               exponentialName = "llvm.nvvm.ex2.approx.ftz";

/// A quotient of f32 whose divisor is at least 1, as that of a sigmoid, and which is rounded to two
/// bytes: a GPU's instruction for reciprocals is exact enough, and takes a third of the
/// instructions, without branches. The divisor stays below 2^126, since denormal numbers count as 0.
/// The dividend loses bits among denormal numbers of f32, which are far below those of bf16.
static void approximateQuotient(arith::DivFOp op) {
  auto sum = getSumWithOne(op.getRhs().getDefiningOp());
  if (!op.getType().isF32() || !sum || !isRoundedToTwoBytes(op))
    return;
  auto isExponential = [](Value value) { return value.getDefiningOp<math::ExpOp>() != nullptr; };
  if (!isExponential(sum.getLhs()) && !isExponential(sum.getRhs()))
    return;
  OpBuilder b(op);
  MathBuilder m(b, op.getLoc(), op.getType(), {});
  Value quarter = m.c(0.25);
  Value reciprocal = m.intrinsic(reciprocalName, m.mul(op.getRhs(), quarter));
  op.replaceAllUsesWith(m.mul(m.mul(op.getLhs(), quarter), reciprocal));
  op.erase();
}

/// 1 + erf(x) of f32 in a product that is rounded to two bytes, as GELU is: erfc(-x), and so without
/// the cancellation. exp(x^2) * erfc(x), x >= 0, is a polynomial in 1 / (1 + 0.44x) (Hastings,
/// "Approximations for Digital Computers", 1955), here of a relative error below 6e-6.
static void approximateErrorFunction(arith::AddFOp sum) {
  bool isFirst = getNumber(sum.getRhs()) == 1;
  auto erf = (isFirst ? sum.getLhs() : sum.getRhs()).getDefiningOp<math::ErfOp>();
  auto isRounded = [](Operation *user) {
    return isa<arith::MulFOp>(user) && isRoundedToTwoBytes(user->getResult(0));
  };
  if (!erf || (!isFirst && getNumber(sum.getLhs()) != 1) || !sum.getType().isF32() ||
      !llvm::all_of(sum->getUsers(), isRounded))
    return;
  OpBuilder b(sum);
  MathBuilder m(b, sum.getLoc(), sum.getType(), {});
  Value x = erf.getOperand();
  Value t = m.intrinsic(reciprocalName, m.fma(m.abs(x), m.c(0.44), m.c(1)));
  Value scaled = m.mul(
      t, m.poly(t, {-0.14610623, 0.35065412, 0.04072926, 0.26358736, 0.24256927, 0.24856105}));
  constexpr double minusLog2E = -1.4426950408889634;
  Value gaussian = m.intrinsic(exponentialName, m.mul(m.mul(x, m.c(minusLog2E)), x));
  Value tail = m.mul(scaled, gaussian);
  sum.replaceAllUsesWith(m.select(m.lt(x, m.c(0)), tail, m.sub(m.c(2), tail)));
  sum.erase();
}

namespace {

struct ExpandMath : kiln::codegen::impl::CodegenExpandMathBase<ExpandMath> {
  using CodegenExpandMathBase::CodegenExpandMathBase;

  void runOnOperation() override {
    SmallVector<Operation *> ops;
    // Before what the divisors are made of is expanded.
    if (gpu) {
      getOperation().walk(approximateQuotient);
      getOperation().walk(approximateErrorFunction);
    }
    getOperation().walk([&](Operation *op) {
      if (isa<math::MathDialect>(op->getDialect()) || isa<arith::RemFOp>(op))
        ops.push_back(op);
    });
    for (Operation *op : ops)
      if (failed(rewrite(op)))
        return signalPassFailure();
  }

  LogicalResult rewrite(Operation *op) {
    Location loc = op->getLoc();
    OpBuilder b(op);
    auto replace = [&](Value value) {
      op->getResult(0).replaceAllUsesWith(value);
      op->erase();
      return success();
    };
    if (auto pow = dyn_cast<math::IPowIOp>(op))
      return replace(expandIntegerPow(b, loc, pow.getLhs(), pow.getRhs()));
    if (auto clamp = dyn_cast<math::ClampFOp>(op)) {
      Value bounded = arith::MaximumFOp::create(b, loc, clamp.getValue(), clamp.getMin());
      return replace(arith::MinimumFOp::create(b, loc, bounded, clamp.getMax()));
    }
    Type element = getElementTypeOrSelf(op->getResult(0).getType());
    bool isSmall = isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
    if (isLeftToLLVM(op) && !(isSmall && isa<math::SqrtOp, math::FmaOp>(op)))
      return success();
    if (!isa<FloatType>(element))
      return op->emitError("has no expansion for ") << element;

    unsigned tables = gpu ? 0 : avx512 ? 32 : 8;
    MathBuilder m(b, loc, op->getResult(0).getType(), {avx512, gpu, tables});
    SmallVector<Value> operands(op->getOperands());
    if (auto power = dyn_cast<math::FPowIOp>(op))
      operands[1] = arith::SIToFPOp::create(b, loc, m.type, power.getRhs());
    Value value = expandFloat(m, op, operands);
    if (!value)
      return op->emitError("has no expansion");
    return replace(value);
  }
};

} // namespace
