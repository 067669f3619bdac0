// One step for each op of arith, math and complex: C's mathematics in double precision, rounded to the op's type.
#include "Code.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <complex>

using namespace mlir;
using namespace kiln;
using namespace kiln::reference;

namespace {

/// Rounds results to a floating-point type.
struct Rounding {
  Type type; // null: not at all
  bool isSingle = false;

  Rounding(Type resultType, bool wide) {
    if (auto complex = dyn_cast<ComplexType>(resultType))
      resultType = complex.getElementType();
    if (!wide && !resultType.isF64())
      type = resultType;
    isSingle = type && type.isF32();
  }
  double operator()(double value) const {
    return !type ? value : isSingle ? static_cast<float>(value) : roundTo(type, value);
  }
};

unsigned getWidth(Value value) { return value.getType().getIntOrFloatBitWidth(); }

/// Scalars of i1 are 0 and 1, all others are sign-extended.
int64_t wrap(int64_t value, unsigned width) {
  return width == 1 ? value & 1 : width == 64 ? value : llvm::SignExtend64(value, width);
}
int64_t getSigned(int64_t value, unsigned width) { return width == 1 ? -value : value; }
uint64_t getUnsigned(int64_t value, unsigned width) {
  return width == 64 ? static_cast<uint64_t>(value)
                     : static_cast<uint64_t>(value) & llvm::maskTrailingOnes<uint64_t>(width);
}

template <typename Function> Step makeReal(const ScalarOp &op, Function function) {
  Rounding round(op.op->getResult(0).getType(), op.wide);
  unsigned result = op.result, a = op.operands[0];
  if constexpr (std::is_invocable_v<Function, double>) {
    return [=](Frame &f) { f.slots[result] = Scalar::of(round(function(f.slots[a].real))); };
  } else if constexpr (std::is_invocable_v<Function, double, double>) {
    unsigned b = op.operands[1];
    return [=](Frame &f) {
      f.slots[result] = Scalar::of(round(function(f.slots[a].real, f.slots[b].real)));
    };
  } else {
    unsigned b = op.operands[1], c = op.operands[2];
    return [=](Frame &f) {
      f.slots[result] =
          Scalar::of(round(function(f.slots[a].real, f.slots[b].real, f.slots[c].real)));
    };
  }
}

/// A test of a floating-point number.
template <typename Function> Step makeTest(const ScalarOp &op, Function function) {
  unsigned result = op.result, a = op.operands[0];
  return [=](Frame &f) { f.slots[result] = Scalar::ofInteger(function(f.slots[a].real)); };
}

/// `function` takes the integers as they are, and maybe the width of the operands.
template <typename Function> Step makeInteger(const ScalarOp &op, Function function) {
  unsigned result = op.result, a = op.operands[0];
  unsigned from = getWidth(op.op->getOperand(0)), to = getWidth(op.op->getResult(0));
  if constexpr (std::is_invocable_v<Function, int64_t, unsigned>) {
    return [=](Frame &f) {
      f.slots[result] = Scalar::ofInteger(wrap(function(f.slots[a].integer, from), to));
    };
  } else {
    unsigned b = op.operands[1];
    return [=](Frame &f) {
      f.slots[result] =
          Scalar::ofInteger(wrap(function(f.slots[a].integer, f.slots[b].integer, from), to));
    };
  }
}

/// On signed and unsigned numbers of 128 bits: nothing overflows.
using Wide = __int128;
template <typename Function> Step makeSigned(const ScalarOp &op, Function function) {
  return makeInteger(op, [=](int64_t a, int64_t b, unsigned width) {
    return static_cast<int64_t>(function(Wide(getSigned(a, width)), Wide(getSigned(b, width))));
  });
}
template <typename Function> Step makeUnsigned(const ScalarOp &op, Function function) {
  return makeInteger(op, [=](int64_t a, int64_t b, unsigned width) {
    return static_cast<int64_t>(function(Wide(getUnsigned(a, width)), Wide(getUnsigned(b, width))));
  });
}

/// A quotient by zero is that by one, as in generated code, which checks divisors with a kernel.expect where it matters.
Wide getDivisor(Wide b) { return b == 0 ? 1 : b; }
Wide divideFloor(Wide a, Wide b) {
  b = getDivisor(b);
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}
Wide divideCeil(Wide a, Wide b) { return -divideFloor(-a, b); }

template <typename Function> Step makeComplex(const ScalarOp &op, Function function) {
  Rounding round(op.op->getResult(0).getType(), op.wide);
  unsigned result = op.result, a = op.operands[0], b = op.operands[1];
  return [=](Frame &f) {
    std::complex<double> x(f.slots[a].real, f.slots[a].imaginary),
        y(f.slots[b].real, f.slots[b].imaginary), z = function(x, y);
    f.slots[result] = Scalar::of(round(z.real()), round(z.imag()));
  };
}

bool compare(arith::CmpFPredicate predicate, double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return predicate >= arith::CmpFPredicate::UEQ; // unordered, or always true
  switch (predicate) {
  case arith::CmpFPredicate::AlwaysTrue:
  case arith::CmpFPredicate::ORD:
    return true;
  case arith::CmpFPredicate::AlwaysFalse:
  case arith::CmpFPredicate::UNO:
    return false;
  case arith::CmpFPredicate::OEQ:
  case arith::CmpFPredicate::UEQ:
    return a == b;
  case arith::CmpFPredicate::ONE:
  case arith::CmpFPredicate::UNE:
    return a != b;
  case arith::CmpFPredicate::OGT:
  case arith::CmpFPredicate::UGT:
    return a > b;
  case arith::CmpFPredicate::OGE:
  case arith::CmpFPredicate::UGE:
    return a >= b;
  case arith::CmpFPredicate::OLT:
  case arith::CmpFPredicate::ULT:
    return a < b;
  case arith::CmpFPredicate::OLE:
  case arith::CmpFPredicate::ULE:
    return a <= b;
  }
  llvm_unreachable("a predicate");
}

Step makeCompare(const ScalarOp &op, arith::CmpIPredicate predicate) {
  return makeInteger(op, [=](int64_t a, int64_t b, unsigned width) -> int64_t {
    llvm::APInt x(width, getUnsigned(a, width)), y(width, getUnsigned(b, width));
    return arith::applyCmpPredicate(predicate, x, y);
  });
}

Step makeSelect(const ScalarOp &op) {
  unsigned result = op.result, c = op.operands[0], a = op.operands[1], b = op.operands[2];
  return [=](Frame &f) { f.slots[result] = f.slots[c].integer ? f.slots[a] : f.slots[b]; };
}

Step makeBitcast(const ScalarOp &op) {
  unsigned result = op.result, a = op.operands[0];
  auto from = dyn_cast<FloatType>(op.op->getOperand(0).getType());
  auto to = dyn_cast<FloatType>(op.op->getResult(0).getType());
  unsigned width = getWidth(op.op->getResult(0));
  return [=](Frame &f) {
    int64_t bits = f.slots[a].integer;
    if (from) {
      llvm::APFloat number(f.slots[a].real);
      bool inexact;
      number.convert(from.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &inexact);
      bits = static_cast<int64_t>(number.bitcastToAPInt().getZExtValue());
    }
    if (!to) {
      f.slots[result] = Scalar::ofInteger(wrap(bits, width));
      return;
    }
    llvm::APFloat number(to.getFloatSemantics(), llvm::APInt(width, getUnsigned(bits, width)));
    f.slots[result] = Scalar::of(number.convertToDouble());
  };
}

Step makeToInteger(const ScalarOp &op) {
  unsigned result = op.result, a = op.operands[0], width = getWidth(op.op->getResult(0));
  double limit = std::ldexp(1., static_cast<int>(width) - 1);
  return [=, strict = op.strict](Frame &f) {
    double x = std::trunc(f.slots[a].real);
    bool isInside = x >= -limit && x < limit;
    if (!isInside && strict)
      f.stop("a number has no integer of its type", false);
    // Numbers outside and NaN: the least integer, as on x86.
    f.slots[result] =
        Scalar::ofInteger(isInside ? static_cast<int64_t>(x) : wrap(llvm::minIntN(width), width));
  };
}

Step makeFromInteger(const ScalarOp &op, bool isSigned) {
  unsigned result = op.result, a = op.operands[0], width = getWidth(op.op->getOperand(0));
  Rounding round(op.op->getResult(0).getType(), op.wide);
  return [=](Frame &f) {
    int64_t x = f.slots[a].integer;
    // Straight to f32: two roundings would be one too many.
    if (round.isSingle) {
      f.slots[result] = Scalar::of(isSigned ? static_cast<float>(getSigned(x, width))
                                            : static_cast<float>(getUnsigned(x, width)));
      return;
    }
    f.slots[result] = Scalar::of(round(isSigned ? static_cast<double>(getSigned(x, width))
                                                : static_cast<double>(getUnsigned(x, width))));
  };
}

int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (; exponent; exponent >>= 1, factor *= factor)
    if (exponent & 1)
      result *= factor;
  return static_cast<int64_t>(result);
}

Step makeArith(const ScalarOp &op) {
  return llvm::TypeSwitch<Operation *, Step>(op.op)
      .Case([&](arith::AddFOp) { return makeReal(op, [](double a, double b) { return a + b; }); })
      .Case([&](arith::SubFOp) { return makeReal(op, [](double a, double b) { return a - b; }); })
      .Case([&](arith::MulFOp) { return makeReal(op, [](double a, double b) { return a * b; }); })
      .Case([&](arith::DivFOp) { return makeReal(op, [](double a, double b) { return a / b; }); })
      .Case([&](arith::RemFOp) {
        return makeReal(op, [](double a, double b) { return std::fmod(a, b); });
      })
      .Case([&](arith::NegFOp) { return makeReal(op, [](double a) { return -a; }); })
      .Case([&](arith::MaximumFOp) {
        return makeReal(op, [](double a, double b) {
          return std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b);
        });
      })
      .Case([&](arith::MinimumFOp) {
        return makeReal(op, [](double a, double b) {
          return std::isnan(a) || std::isnan(b) ? NAN : std::fmin(a, b);
        });
      })
      .Case([&](arith::MaxNumFOp) {
        return makeReal(op, [](double a, double b) { return std::fmax(a, b); });
      })
      .Case([&](arith::MinNumFOp) {
        return makeReal(op, [](double a, double b) { return std::fmin(a, b); });
      })
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [&](auto) { return makeReal(op, [](double a) { return a; }); })
      .Case([&](arith::CmpFOp compared) {
        unsigned result = op.result, a = op.operands[0], b = op.operands[1];
        return [=, predicate = compared.getPredicate()](Frame &f) {
          f.slots[result] = Scalar::ofInteger(compare(predicate, f.slots[a].real, f.slots[b].real));
        };
      })
      .Case([&](arith::AddIOp) { return makeSigned(op, [](Wide a, Wide b) { return a + b; }); })
      .Case([&](arith::SubIOp) { return makeSigned(op, [](Wide a, Wide b) { return a - b; }); })
      .Case([&](arith::MulIOp) { return makeSigned(op, [](Wide a, Wide b) { return a * b; }); })
      .Case([&](arith::DivSIOp) {
        return makeSigned(op, [](Wide a, Wide b) { return a / getDivisor(b); });
      })
      .Case([&](arith::RemSIOp) {
        return makeSigned(op, [](Wide a, Wide b) { return a % getDivisor(b); });
      })
      .Case([&](arith::FloorDivSIOp) { return makeSigned(op, divideFloor); })
      .Case([&](arith::CeilDivSIOp) { return makeSigned(op, divideCeil); })
      .Case([&](arith::DivUIOp) {
        return makeUnsigned(op, [](Wide a, Wide b) { return a / getDivisor(b); });
      })
      .Case([&](arith::RemUIOp) {
        return makeUnsigned(op, [](Wide a, Wide b) { return a % getDivisor(b); });
      })
      .Case([&](arith::CeilDivUIOp) { return makeUnsigned(op, divideCeil); })
      .Case([&](arith::MaxSIOp) {
        return makeSigned(op, [](Wide a, Wide b) { return std::max(a, b); });
      })
      .Case([&](arith::MinSIOp) {
        return makeSigned(op, [](Wide a, Wide b) { return std::min(a, b); });
      })
      .Case([&](arith::MaxUIOp) {
        return makeUnsigned(op, [](Wide a, Wide b) { return std::max(a, b); });
      })
      .Case([&](arith::MinUIOp) {
        return makeUnsigned(op, [](Wide a, Wide b) { return std::min(a, b); });
      })
      .Case([&](arith::AndIOp) { return makeSigned(op, [](Wide a, Wide b) { return a & b; }); })
      .Case([&](arith::OrIOp) { return makeSigned(op, [](Wide a, Wide b) { return a | b; }); })
      .Case([&](arith::XOrIOp) { return makeSigned(op, [](Wide a, Wide b) { return a ^ b; }); })
      .Case<arith::ShLIOp, arith::ShRUIOp>([&](auto shift) {
        bool left = isa<arith::ShLIOp>(shift);
        return makeInteger(op, [=](int64_t a, int64_t b, unsigned width) -> int64_t {
          uint64_t x = getUnsigned(a, width), by = getUnsigned(b, width);
          return static_cast<int64_t>(by >= width ? 0 : left ? x << by : x >> by);
        });
      })
      .Case([&](arith::ShRSIOp) {
        return makeInteger(op, [](int64_t a, int64_t b, unsigned width) {
          return getSigned(a, width) >> std::min<uint64_t>(getUnsigned(b, width), 63);
        });
      })
      .Case([&](arith::CmpIOp compared) { return makeCompare(op, compared.getPredicate()); })
      .Case([&](arith::ExtSIOp) {
        return makeInteger(op, [](int64_t a, unsigned width) { return getSigned(a, width); });
      })
      .Case([&](arith::ExtUIOp) {
        return makeInteger(op, [](int64_t a, unsigned width) {
          return static_cast<int64_t>(getUnsigned(a, width));
        });
      })
      .Case([&](arith::TruncIOp) { return makeInteger(op, [](int64_t a, unsigned) { return a; }); })
      .Case([&](arith::SIToFPOp) { return makeFromInteger(op, true); })
      .Case([&](arith::UIToFPOp) { return makeFromInteger(op, false); })
      .Case([&](arith::FPToSIOp) { return makeToInteger(op); })
      .Case([&](arith::BitcastOp) { return makeBitcast(op); })
      .Case([&](arith::SelectOp) { return makeSelect(op); })
      .Default([](Operation *) { return nullptr; });
}

template <double function(double)> Step makeFunction(const ScalarOp &op) {
  return makeReal(op, [](double x) { return function(x); });
}

Step makeMath(const ScalarOp &op) {
  return llvm::TypeSwitch<Operation *, Step>(op.op)
      .Case([&](math::AbsFOp) { return makeFunction<std::fabs>(op); })
      .Case([&](math::CeilOp) { return makeFunction<std::ceil>(op); })
      .Case([&](math::FloorOp) { return makeFunction<std::floor>(op); })
      .Case([&](math::TruncOp) { return makeFunction<std::trunc>(op); })
      .Case([&](math::RoundOp) { return makeFunction<std::round>(op); })
      .Case([&](math::RoundEvenOp) { return makeFunction<std::nearbyint>(op); })
      .Case([&](math::SqrtOp) { return makeFunction<std::sqrt>(op); })
      .Case([&](math::RsqrtOp) { return makeReal(op, [](double x) { return 1 / std::sqrt(x); }); })
      .Case([&](math::CbrtOp) { return makeFunction<std::cbrt>(op); })
      .Case([&](math::ExpOp) { return makeFunction<std::exp>(op); })
      .Case([&](math::Exp2Op) { return makeFunction<std::exp2>(op); })
      .Case([&](math::ExpM1Op) { return makeFunction<std::expm1>(op); })
      .Case([&](math::LogOp) { return makeFunction<std::log>(op); })
      .Case([&](math::Log2Op) { return makeFunction<std::log2>(op); })
      .Case([&](math::Log10Op) { return makeFunction<std::log10>(op); })
      .Case([&](math::Log1pOp) { return makeFunction<std::log1p>(op); })
      .Case([&](math::ErfOp) { return makeFunction<std::erf>(op); })
      .Case([&](math::ErfcOp) { return makeFunction<std::erfc>(op); })
      .Case([&](math::SinOp) { return makeFunction<std::sin>(op); })
      .Case([&](math::CosOp) { return makeFunction<std::cos>(op); })
      .Case([&](math::TanOp) { return makeFunction<std::tan>(op); })
      .Case([&](math::AsinOp) { return makeFunction<std::asin>(op); })
      .Case([&](math::AcosOp) { return makeFunction<std::acos>(op); })
      .Case([&](math::AtanOp) { return makeFunction<std::atan>(op); })
      .Case([&](math::SinhOp) { return makeFunction<std::sinh>(op); })
      .Case([&](math::CoshOp) { return makeFunction<std::cosh>(op); })
      .Case([&](math::TanhOp) { return makeFunction<std::tanh>(op); })
      .Case([&](math::AsinhOp) { return makeFunction<std::asinh>(op); })
      .Case([&](math::AcoshOp) { return makeFunction<std::acosh>(op); })
      .Case([&](math::AtanhOp) { return makeFunction<std::atanh>(op); })
      .Case([&](math::Atan2Op) {
        return makeReal(op, [](double a, double b) { return std::atan2(a, b); });
      })
      .Case([&](math::PowFOp) {
        return makeReal(op, [](double a, double b) { return std::pow(a, b); });
      })
      .Case([&](math::CopySignOp) {
        return makeReal(op, [](double a, double b) { return std::copysign(a, b); });
      })
      .Case([&](math::FmaOp) {
        return makeReal(op, [](double a, double b, double c) { return std::fma(a, b, c); });
      })
      .Case([&](math::ClampFOp) {
        return makeReal(op, [](double x, double low, double high) {
          return std::fmin(std::fmax(x, low), high);
        });
      })
      .Case([&](math::FPowIOp) {
        unsigned result = op.result, a = op.operands[0], b = op.operands[1];
        return [=, round = Rounding(op.op->getResult(0).getType(), op.wide)](Frame &f) {
          double exponent = static_cast<double>(f.slots[b].integer);
          f.slots[result] = Scalar::of(round(std::pow(f.slots[a].real, exponent)));
        };
      })
      .Case([&](math::IsNaNOp) { return makeTest(op, [](double x) { return std::isnan(x); }); })
      .Case([&](math::IsInfOp) { return makeTest(op, [](double x) { return std::isinf(x); }); })
      .Case(
          [&](math::IsFiniteOp) { return makeTest(op, [](double x) { return std::isfinite(x); }); })
      .Case([&](math::AbsIOp) {
        return makeInteger(
            op, [](int64_t a, unsigned) { return a < 0 ? -static_cast<uint64_t>(a) : a; });
      })
      .Case([&](math::IPowIOp) {
        return makeInteger(op, [](int64_t a, int64_t b, unsigned) { return power(a, b); });
      })
      .Case([&](math::CtPopOp) {
        return makeInteger(
            op, [](int64_t a, unsigned width) { return llvm::popcount(getUnsigned(a, width)); });
      })
      .Case([&](math::CountLeadingZerosOp) {
        return makeInteger(op, [](int64_t a, unsigned width) -> int64_t {
          return llvm::countl_zero(getUnsigned(a, width)) - 64 + static_cast<int>(width);
        });
      })
      .Case([&](math::CountTrailingZerosOp) {
        return makeInteger(op, [](int64_t a, unsigned width) -> int64_t {
          return std::min<int64_t>(llvm::countr_zero(getUnsigned(a, width)), width);
        });
      })
      .Default([](Operation *) { return nullptr; });
}

Step makeComplexOp(const ScalarOp &op) {
  using Number = const std::complex<double> &;
  unsigned result = op.result, a = op.operands[0];
  return llvm::TypeSwitch<Operation *, Step>(op.op)
      .Case([&](complex::CreateOp) {
        unsigned b = op.operands[1];
        return [=](Frame &f) { f.slots[result] = Scalar::of(f.slots[a].real, f.slots[b].real); };
      })
      .Case([&](complex::ReOp) {
        return [=](Frame &f) { f.slots[result] = Scalar::of(f.slots[a].real); };
      })
      .Case([&](complex::ImOp) {
        return [=](Frame &f) { f.slots[result] = Scalar::of(f.slots[a].imaginary); };
      })
      .Case(
          [&](complex::AddOp) { return makeComplex(op, [](Number x, Number y) { return x + y; }); })
      .Case(
          [&](complex::SubOp) { return makeComplex(op, [](Number x, Number y) { return x - y; }); })
      .Case(
          [&](complex::MulOp) { return makeComplex(op, [](Number x, Number y) { return x * y; }); })
      .Case(
          [&](complex::DivOp) { return makeComplex(op, [](Number x, Number y) { return x / y; }); })
      .Default([](Operation *) { return nullptr; });
}

double toDouble(const llvm::APFloat &number) { return number.convertToDouble(); }

} // namespace

Step reference::makeScalarStep(const ScalarOp &op) {
  StringRef dialect = op.op->getName().getDialectNamespace();
  return dialect == "arith"     ? makeArith(op)
         : dialect == "math"    ? makeMath(op)
         : dialect == "complex" ? makeComplexOp(op)
                                : nullptr;
}

std::optional<Scalar> reference::getConstant(Operation *op) {
  if (auto constant = dyn_cast<complex::ConstantOp>(op)) {
    auto part = [&](unsigned i) {
      return toDouble(cast<FloatAttr>(constant.getValue()[i]).getValue());
    };
    return Scalar::of(part(0), part(1));
  }
  auto constant = dyn_cast<arith::ConstantOp>(op);
  if (!constant)
    return std::nullopt;
  if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
    return Scalar::of(toDouble(number.getValue()));
  if (auto number = dyn_cast<IntegerAttr>(constant.getValue())) {
    const llvm::APInt &bits = number.getValue();
    return Scalar::ofInteger(bits.getBitWidth() == 1 ? bits.getZExtValue() : bits.getSExtValue());
  }
  return std::nullopt;
}
