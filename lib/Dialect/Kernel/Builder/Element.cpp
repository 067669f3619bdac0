// Arithmetic on the elements of bodies, with the rules that PyTorch has for each dtype.
#include "kiln/Dialect/Kernel/Builder/Element.h"
#include "kiln/Dialect/Kernel/Builder/Float8.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/Dialect/Complex/IR/Complex.h"
#include "mlir/IR/Matchers.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

Type kernel::opmath(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return ComplexType::get(opmath(complex.getElementType()));
  if (auto floating = dyn_cast<FloatType>(type); floating && floating.getWidth() < 32)
    return Float32Type::get(type.getContext());
  return type;
}

//===-- Constants -----------------------------------------------------------------------------===//

static FloatAttr floatAttr(FloatType type, double value) {
  APFloat rounded(value);
  bool losesInfo;
  rounded.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
  return FloatAttr::get(type, rounded);
}

static FloatAttr floatAttr(FloatType type, int64_t value) {
  APFloat rounded(type.getFloatSemantics());
  rounded.convertFromAPInt(APInt(64, value, /*isSigned=*/true), /*IsSigned=*/true,
                           APFloat::rmNearestTiesToEven);
  return FloatAttr::get(type, rounded);
}

static Element intConstant(ImplicitLocOpBuilder &b, Type type, int64_t value) {
  auto scalar = cast<IntegerType>(kernel::getScalarType(type));
  APInt bits = isBool(type) ? APInt(1, value != 0)
                            : APInt(64, value, /*isSigned=*/true).trunc(scalar.getWidth());
  return {b, arith::ConstantOp::create(b, IntegerAttr::get(scalar, bits)), type};
}

Element kernel::constant(ImplicitLocOpBuilder &b, Type type, double value) {
  if (isFloat8(type))
    return encodeFloat8(constant(b, b.getF32Type(), value), type);
  if (auto floating = dyn_cast<FloatType>(type))
    return {b, arith::ConstantOp::create(b, floatAttr(floating, value)), type};
  if (isComplex(type))
    return constant(b, type, std::complex<double>(value, 0));
  if (isBool(type))
    return intConstant(b, type, value != 0);
  // A double outside the range of int64_t has no integer value; eager's is as arbitrary.
  bool fits = value >= -0x1p63 && value < 0x1p63;
  return intConstant(b, type, fits ? static_cast<int64_t>(value) : INT64_MIN);
}

Element kernel::constant(ImplicitLocOpBuilder &b, Type type, int64_t value) {
  if (isFloat8(type))
    return encodeFloat8(constant(b, b.getF32Type(), value), type);
  if (auto floating = dyn_cast<FloatType>(type))
    return {b, arith::ConstantOp::create(b, floatAttr(floating, value)), type};
  if (isComplex(type))
    return constant(b, type, std::complex<double>(static_cast<double>(value), 0));
  return intConstant(b, type, value);
}

Element kernel::constant(ImplicitLocOpBuilder &b, Type type, std::complex<double> value) {
  auto complexType = dyn_cast<ComplexType>(type);
  if (!complexType)
    return constant(b, type, value.real());
  auto part = cast<FloatType>(complexType.getElementType());
  ArrayAttr parts = b.getArrayAttr({floatAttr(part, value.real()), floatAttr(part, value.imag())});
  return {b, complex::ConstantOp::create(b, type, parts), type};
}

Element kernel::lowest(ImplicitLocOpBuilder &b, Type type) {
  if (isFloat(type))
    return constant(b, type, -std::numeric_limits<double>::infinity());
  if (isUnsigned(type))
    return constant(b, type, int64_t(0));
  return constant(b, type, APInt::getSignedMinValue(type.getIntOrFloatBitWidth()).getSExtValue());
}

Element kernel::highest(ImplicitLocOpBuilder &b, Type type) {
  if (isFloat(type))
    return constant(b, type, std::numeric_limits<double>::infinity());
  if (isUnsigned(type))
    return constant(b, type, int64_t(-1));
  return constant(b, type, APInt::getSignedMaxValue(type.getIntOrFloatBitWidth()).getSExtValue());
}

Element Element::constant(double value) const {
  return kernel::constant(*builder, elementType, value);
}
Element Element::constant(int64_t value) const {
  return kernel::constant(*builder, elementType, value);
}

//===-- Conversion ----------------------------------------------------------------------------===//

static Element floatToFloat(Element x, FloatType to) {
  auto from = cast<FloatType>(x.type());
  auto f32 = Float32Type::get(to.getContext());
  if (from.getWidth() < to.getWidth())
    return x.make(arith::ExtFOp::create(x.b(), to, x.value()), to);
  // c10 goes through float between f64 and narrower types, and between two narrow types.
  if (to.getWidth() < 32 && from != f32)
    return floatToFloat(floatToFloat(x, f32), to);
  // MLIR folds no rounding that changes the number.
  FloatAttr number;
  if (matchPattern(x.value(), m_Constant(&number)))
    return kernel::constant(x.b(), to, number.getValueAsDouble());
  return x.make(arith::TruncFOp::create(x.b(), to, x.value()), to);
}

static Element intToInt(Element x, Type to) {
  auto scalar = cast<IntegerType>(kernel::getScalarType(to));
  unsigned from = x.type().getIntOrFloatBitWidth();
  if (from == scalar.getWidth())
    return x.make(x.value(), to);
  if (from > scalar.getWidth())
    return x.make(arith::TruncIOp::create(x.b(), scalar, x.value()), to);
  if (isUnsigned(x.type()))
    return x.make(arith::ExtUIOp::create(x.b(), scalar, x.value()), to);
  return x.make(arith::ExtSIOp::create(x.b(), scalar, x.value()), to);
}

static Element floatToInt(Element x, Type to) {
  ImplicitLocOpBuilder &b = x.b();
  unsigned width = to.getIntOrFloatBitWidth();
  if (to.isUnsignedInteger(64)) {
    // Negative numbers keep the bits that they have as signed ones, as in C++ on x86.
    Element half = x.constant(0x1p63), isLow = x < half;
    Value low = arith::FPToSIOp::create(b, b.getI64Type(), select(isLow, x, x - half).value());
    Element rest = x.make(low, to);
    return select(isLow, rest, rest ^ rest.constant(INT64_MIN));
  }
  // Narrow results are the low bits of a wider one, as on x86 (and as c10 does for uint8).
  bool isByte = to.isUnsignedInteger(8);
  Type wide = b.getIntegerType(isByte || to.isUnsignedInteger(32) ? 64 : std::max(width, 32u));
  return intToInt(x.make(arith::FPToSIOp::create(b, wide, x.value()), wide), to);
}

Element kernel::convert(Element x, Type to) {
  Type from = x.type();
  ImplicitLocOpBuilder &b = x.b();
  if (from == to)
    return x;
  if (isFloat8(from))
    return convert(decodeFloat8(x), to);
  if (isFloat8(to))
    return encodeFloat8(convert(x, b.getF32Type()), to);
  if (isBool(to))
    return isTrue(x);
  if (auto complexTo = dyn_cast<ComplexType>(to)) {
    Type part = complexTo.getElementType();
    if (isComplex(from))
      return makeComplex(convert(real(x), part), convert(imag(x), part));
    return makeComplex(convert(x, part), constant(b, part, 0.0));
  }
  if (isComplex(from))
    return convert(real(x), to);
  if (isFloat(from) && isFloat(to))
    return floatToFloat(x, cast<FloatType>(to));
  if (isFloat(from)) {
    if (from.getIntOrFloatBitWidth() < 32)
      x = convert(x, b.getF32Type());
    return floatToInt(x, to);
  }
  if (!isFloat(to))
    return intToInt(x, to);
  if (to.getIntOrFloatBitWidth() < 32)
    return convert(convert(x, b.getF32Type()), to);
  if (isUnsigned(from))
    return x.make(arith::UIToFPOp::create(b, to, x.value()), to);
  return x.make(arith::SIToFPOp::create(b, to, x.value()), to);
}

//===-- Arithmetic ----------------------------------------------------------------------------===//

template <typename IntOp, typename FloatOp, typename ComplexOp>
static Element arithmetic(Element a, Element b) {
  assert(a.type() == b.type() && "operands are promoted first");
  if (isFloat(a.type()))
    return apply<FloatOp>(a, b);
  if (isComplex(a.type())) {
    Type wide = opmath(a.type());
    return convert(apply<ComplexOp>(convert(a, wide), convert(b, wide)), a.type());
  }
  return apply<IntOp>(a, b);
}

Element kernel::operator+(Element a, Element b) {
  if (isBool(a.type()))
    return a | b;
  return arithmetic<arith::AddIOp, arith::AddFOp, complex::AddOp>(a, b);
}

Element kernel::operator-(Element a, Element b) {
  return arithmetic<arith::SubIOp, arith::SubFOp, complex::SubOp>(a, b);
}

Element kernel::operator*(Element a, Element b) {
  if (isBool(a.type()))
    return a & b;
  return arithmetic<arith::MulIOp, arith::MulFOp, complex::MulOp>(a, b);
}

/// Smith's algorithm, which scales by the larger part of the divisor; c10's.
static Element divideComplex(Element a, Element b) {
  Element x = real(b), y = imag(b), byReal = abs(x) >= abs(y);
  Element large = select(byReal, x, y), small = select(byReal, y, x);
  Element isZero = (large == large.constant(0)) & (small == small.constant(0));
  Element ratio = small / select(isZero, large.constant(1), large);
  Element scale = 1.0 / (large + small * ratio);
  // (a.re + a.im i) times the conjugate, with the parts changed over where y leads.
  Element first = select(byReal, real(a), imag(a)), second = select(byReal, imag(a), real(a));
  Element re = (first + second * ratio) * scale, im = (second - first * ratio) * scale;
  im = select(byReal, im, -im);
  Element zero = abs(large);
  return makeComplex(select(isZero, real(a) / zero, re), select(isZero, imag(a) / zero, im));
}

Element kernel::operator/(Element a, Element b) {
  assert(!isInt(a.type()) && "integers divide with truncDiv and floorDiv");
  if (isComplex(a.type())) {
    Type wide = opmath(a.type());
    return convert(divideComplex(convert(a, wide), convert(b, wide)), a.type());
  }
  // A quotient of constants is one, which a conversion rounds.
  return a.make(a.b().createOrFold<arith::DivFOp>(a.value(), b.value()), a.type());
}

Element kernel::operator-(Element x) {
  if (isFloat(x.type()))
    return apply<arith::NegFOp>(x);
  if (isComplex(x.type()))
    return makeComplex(-real(x), -imag(x));
  return x.constant(0) - x;
}

/// Quotient and remainder toward zero. Code generation keeps a divisor from trapping.
static std::pair<Element, Element> divideInts(Element a, Element b) {
  if (isUnsigned(a.type()))
    return {apply<arith::DivUIOp>(a, b), apply<arith::RemUIOp>(a, b)};
  return {apply<arith::DivSIOp>(a, b), apply<arith::RemSIOp>(a, b)};
}

/// The remainder is not zero and has the other sign than the divisor.
static Element signsDiffer(Element rest, Element divisor) {
  Element zero = rest.constant(0);
  return (rest != zero) & ((rest < zero) ^ (divisor < zero));
}

Element kernel::truncDiv(Element a, Element b) {
  if (isFloat(a.type()))
    return trunc(a / b);
  return divideInts(a, b).first;
}

Element kernel::floorDiv(Element a, Element b) {
  if (isInt(a.type())) {
    auto [quotient, rest] = divideInts(a, b);
    if (isUnsigned(a.type()))
      return quotient;
    return select(signsDiffer(rest, b), quotient - a.constant(1), quotient);
  }
  // c10::div_floor_floating: Python's algorithm, which is exact where floor(a / b) is not.
  Element zero = a.constant(0);
  Element rest = fmod(a, b);
  Element quotient = (a - rest) / b;
  quotient = select(signsDiffer(rest, b), quotient - 1.0, quotient);
  Element floored = floor(quotient);
  floored = select(quotient - floored > a.constant(0.5), floored + 1.0, floored);
  floored = select(quotient != zero, floored, copysign(zero, a / b));
  return select(b == zero, a / b, floored);
}

Element kernel::remainder(Element a, Element b) {
  Element rest = fmod(a, b);
  if (isUnsigned(a.type()))
    return rest;
  return select(signsDiffer(rest, b), rest + b, rest);
}

Element kernel::fmod(Element a, Element b) {
  if (isFloat(a.type()))
    return apply<arith::RemFOp>(a, b);
  return divideInts(a, b).second;
}

Element kernel::maximum(Element a, Element b) {
  if (isFloat(a.type()))
    return apply<arith::MaximumFOp>(a, b);
  if (isUnsigned(a.type()))
    return apply<arith::MaxUIOp>(a, b);
  return apply<arith::MaxSIOp>(a, b);
}

Element kernel::minimum(Element a, Element b) {
  if (isFloat(a.type()))
    return apply<arith::MinimumFOp>(a, b);
  if (isUnsigned(a.type()))
    return apply<arith::MinUIOp>(a, b);
  return apply<arith::MinSIOp>(a, b);
}

Element kernel::atLeast(Element x, Element bound) {
  return isFloat(x.type()) ? select(x < bound, bound, x) : maximum(x, bound);
}

Element kernel::atMost(Element x, Element bound) {
  return isFloat(x.type()) ? select(x > bound, bound, x) : minimum(x, bound);
}

Element kernel::fmax(Element a, Element b) {
  if (!isFloat(a.type()))
    return maximum(a, b);
  return select((a >= b) | isNan(b), a, b);
}

Element kernel::fmin(Element a, Element b) {
  if (!isFloat(a.type()))
    return minimum(a, b);
  return select((a <= b) | isNan(b), a, b);
}

Element kernel::abs(Element x) {
  if (isFloat(x.type()))
    return apply<math::AbsFOp>(x);
  if (isComplex(x.type()))
    return hypot(real(x), imag(x));
  if (isUnsigned(x.type()))
    return x;
  return select(x < x.constant(0), -x, x);
}

Element kernel::addInOpmath(Element a, Element b) {
  Type wide = opmath(a.type());
  return convert(convert(a, wide) + convert(b, wide), a.type());
}

Element kernel::pow(Element a, Element b) { return apply<math::PowFOp>(a, b); }

Element kernel::hypot(Element a, Element b) {
  Element x = abs(a), y = abs(b), length;
  if (x.type().isF64()) {
    // Scaled by the larger magnitude, so that squares neither overflow nor vanish.
    Element large = maximum(x, y), small = minimum(x, y), ratio = small / large;
    length = large * sqrt(1.0 + ratio * ratio);
    length = select(large == x.constant(0), large, length);
  } else {
    Type wide = Float64Type::get(x.b().getContext());
    Element p = convert(x, wide), q = convert(y, wide);
    length = convert(sqrt(p * p + q * q), x.type());
  }
  Element infinity = x.constant(std::numeric_limits<double>::infinity());
  return select((x == infinity) | (y == infinity), infinity, length);
}

//===-- Bits and truth ------------------------------------------------------------------------===//

Element kernel::operator&(Element a, Element b) { return apply<arith::AndIOp>(a, b); }
Element kernel::operator|(Element a, Element b) { return apply<arith::OrIOp>(a, b); }
Element kernel::operator^(Element a, Element b) { return apply<arith::XOrIOp>(a, b); }
Element kernel::operator~(Element x) { return x ^ x.constant(isBool(x.type()) ? 1 : -1); }

/// The amount is negative or at least `limit`.
static Element outOfRange(Element amount, int64_t limit) {
  auto bits = cast<IntegerType>(amount.value().getType());
  // Seen as unsigned, a negative amount is a large one.
  Value bound = arith::ConstantOp::create(amount.b(), IntegerAttr::get(bits, limit));
  return amount.make(
      arith::CmpIOp::create(amount.b(), arith::CmpIPredicate::uge, amount.value(), bound),
      amount.b().getI1Type());
}

Element kernel::shiftLeft(Element a, Element b) {
  Element out = outOfRange(b, a.type().getIntOrFloatBitWidth());
  Element zero = a.constant(0);
  return select(out, zero, apply<arith::ShLIOp>(a, select(out, zero, b)));
}

Element kernel::shiftRight(Element a, Element b) {
  int64_t width = a.type().getIntOrFloatBitWidth();
  if (isUnsigned(a.type())) {
    Element out = outOfRange(b, width), zero = a.constant(0);
    return select(out, zero, apply<arith::ShRUIOp>(a, select(out, zero, b)));
  }
  Element most = a.constant(width - 1);
  return apply<arith::ShRSIOp>(a, select(outOfRange(b, width - 1), most, b));
}

static Element compare(Element a, Element b, arith::CmpFPredicate floating,
                       arith::CmpIPredicate isSigned, arith::CmpIPredicate unsignedInt) {
  assert(a.type() == b.type() && "operands are promoted first");
  ImplicitLocOpBuilder &builder = a.b();
  Type i1 = builder.getI1Type();
  if (isFloat(a.type()))
    return a.make(arith::CmpFOp::create(builder, floating, a.value(), b.value()), i1);
  arith::CmpIPredicate predicate = isUnsigned(a.type()) ? unsignedInt : isSigned;
  return a.make(arith::CmpIOp::create(builder, predicate, a.value(), b.value()), i1);
}

Element kernel::operator==(Element a, Element b) {
  if (isComplex(a.type()))
    return (real(a) == real(b)) & (imag(a) == imag(b));
  return compare(a, b, arith::CmpFPredicate::OEQ, arith::CmpIPredicate::eq,
                 arith::CmpIPredicate::eq);
}

Element kernel::operator!=(Element a, Element b) {
  if (isComplex(a.type()))
    return (real(a) != real(b)) | (imag(a) != imag(b));
  return compare(a, b, arith::CmpFPredicate::UNE, arith::CmpIPredicate::ne,
                 arith::CmpIPredicate::ne);
}

Element kernel::operator<(Element a, Element b) {
  return compare(a, b, arith::CmpFPredicate::OLT, arith::CmpIPredicate::slt,
                 arith::CmpIPredicate::ult);
}

Element kernel::operator<=(Element a, Element b) {
  return compare(a, b, arith::CmpFPredicate::OLE, arith::CmpIPredicate::sle,
                 arith::CmpIPredicate::ule);
}

Element kernel::isNan(Element x) {
  if (isFloat(x.type()))
    return x != x;
  if (isComplex(x.type()))
    return isNan(real(x)) | isNan(imag(x));
  return constant(x.b(), x.b().getI1Type(), int64_t(0));
}

Element kernel::isInf(Element x) {
  if (isFloat(x.type()))
    return abs(x) == x.constant(std::numeric_limits<double>::infinity());
  if (isComplex(x.type()))
    return isInf(real(x)) | isInf(imag(x));
  return constant(x.b(), x.b().getI1Type(), int64_t(0));
}

Element kernel::isTrue(Element x) { return isBool(x.type()) ? x : x != x.constant(0); }

Element kernel::select(Element condition, Element a, Element b) {
  return a.make(arith::SelectOp::create(a.b(), condition.value(), a.value(), b.value()));
}

SmallVector<Element>
kernel::iterate(int64_t limit, ArrayRef<Element> init,
                function_ref<std::pair<Element, SmallVector<Element>>(ArrayRef<Element>)> step) {
  ImplicitLocOpBuilder &b = init.front().b();
  SmallVector<Value> values;
  for (const Element &element : init)
    values.push_back(element.value());
  TypeRange types = ValueRange(values).getTypes();
  auto op = kernel::IterateOp::create(b, types, b.getI64IntegerAttr(limit), values);
  SmallVector<Element> arguments, results;
  {
    OpBuilder::InsertionGuard guard(b);
    Block *body =
        b.createBlock(&op.getBody(), {}, types, SmallVector<Location>(values.size(), b.getLoc()));
    for (auto [element, argument] : llvm::zip_equal(init, body->getArguments()))
      arguments.push_back(element.make(argument));
    auto [again, next] = step(arguments);
    SmallVector<Value> yielded{again.value()};
    for (const Element &element : next)
      yielded.push_back(element.value());
    kernel::YieldOp::create(b, yielded);
  }
  for (auto [element, result] : llvm::zip_equal(init, op.getResults()))
    results.push_back(element.make(result));
  return results;
}

//===-- Functions of floats -------------------------------------------------------------------===//

Element kernel::sigmoid(Element x) { return 1.0 / (1.0 + exp(-x)); }

//===-- Complex numbers -----------------------------------------------------------------------===//

Element kernel::real(Element x) {
  auto type = cast<ComplexType>(x.type());
  return x.make(complex::ReOp::create(x.b(), x.value()), type.getElementType());
}
Element kernel::imag(Element x) {
  auto type = cast<ComplexType>(x.type());
  return x.make(complex::ImOp::create(x.b(), x.value()), type.getElementType());
}
Element kernel::makeComplex(Element re, Element im) {
  Type type = ComplexType::get(re.type());
  return re.make(complex::CreateOp::create(re.b(), type, re.value(), im.value()), type);
}
