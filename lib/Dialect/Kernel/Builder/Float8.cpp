// 8-bit floating-point numbers: a storage format, whose elements are bits (i8) in regions and f32
// everywhere else. Rounding is to nearest even. Past the largest number PyTorch goes to infinity
// where the format has one, stays at the largest in e4m3fn, and gives NaN in the fnuz formats.
#include "kiln/Dialect/Kernel/Builder/Float8.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {
struct Format {
  int64_t mantissa, bias;
  int64_t overflow; // bits of the least f32 that is out of range
  int64_t beyond;   // what becomes of it
  int64_t nan;
  bool hasInfinity;
  bool unsignedZero; // and NaN is where -0 would be
};
} // namespace

static Format formatOf(Type type) {
  if (isa<Float8E4M3FNType>(type))
    return {3, 7, 0x43e80000, 0x7e, 0x7f, false, false};
  if (isa<Float8E5M2Type>(type))
    return {2, 15, 143 << 23, 0x7c, 0x7f, true, false};
  if (isa<Float8E4M3FNUZType>(type))
    return {3, 8, 0x87 << 23, 0x80, 0x80, false, true};
  assert(isa<Float8E5M2FNUZType>(type) && "not an 8-bit format");
  return {2, 16, int64_t(0x8f) << 23, 0x80, 0x80, false, true};
}

bool kernel::isFloat8(Type type) {
  return isa<Float8E4M3FNType, Float8E5M2Type, Float8E4M3FNUZType, Float8E5M2FNUZType>(type);
}

static Element asFloat(Element bits) {
  Type f32 = bits.b().getF32Type();
  return bits.make(arith::BitcastOp::create(bits.b(), f32, bits.value()), f32);
}

Element kernel::encodeFloat8(Element x, Type type) {
  Format format = formatOf(type);
  Type i32 = x.b().getI32Type();
  Element all = x.make(arith::BitcastOp::create(x.b(), i32, x.value()), i32);
  Element magnitude = all & all.constant(int64_t(0x7fffffff));
  int64_t shift = 23 - format.mantissa;
  // Numbers below the normal ones: adding this leaves their rounded bits at the end of the sum.
  Element last = all.constant((127 - format.bias + shift + 1) << 23);
  Element sum = asFloat(magnitude) + asFloat(last);
  Element small = x.make(arith::BitcastOp::create(x.b(), i32, sum.value()), i32) - last;
  Element odd = shiftRight(magnitude, all.constant(shift)) & all.constant(1);
  int64_t rebias = ((format.bias - 127) << 23) + ((int64_t(1) << (shift - 1)) - 1);
  Element normal = shiftRight(magnitude + all.constant(rebias) + odd, all.constant(shift));
  Element result = select(magnitude < all.constant((128 - format.bias) << 23), small, normal);
  Element out = magnitude >= all.constant(format.overflow);
  Element sign = shiftRight(all, all.constant(24)) & all.constant(0x80);
  if (format.unsignedZero)
    sign = select(result == all.constant(0), all.constant(0), sign);
  result = result | sign;
  Element beyond = all.constant(format.beyond);
  if (!format.unsignedZero)
    beyond = select(magnitude > all.constant(0x7f800000), all.constant(format.nan), beyond) | sign;
  Element bits = convert(select(out, beyond, result), x.b().getI8Type());
  return bits.make(bits.value(), type);
}

Element kernel::decodeFloat8(Element x) {
  Format format = formatOf(x.type());
  ImplicitLocOpBuilder &b = x.b();
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  Element all =
      convert(x.make(x.value(), IntegerType::get(b.getContext(), 8, IntegerType::Unsigned)), i32);
  Element magnitude = all & all.constant(0x7f);
  int64_t shift = 23 - format.mantissa;
  Element normal =
      shiftLeft(magnitude, all.constant(shift)) + all.constant((127 - format.bias) << 23);
  Element small = convert(magnitude, f32) *
                  std::ldexp(1.0, static_cast<int>(1 - format.bias - format.mantissa));
  Element value =
      select(magnitude < all.constant(int64_t(1) << format.mantissa), small, asFloat(normal));
  Element isNan = magnitude == all.constant(0x7f);
  if (format.unsignedZero) {
    isNan = all == all.constant(0x80);
  } else if (format.hasInfinity) {
    value = select(magnitude == all.constant(format.beyond),
                   value.constant(std::numeric_limits<double>::infinity()), value);
    isNan = magnitude > all.constant(format.beyond);
  }
  Element signedBits = shiftLeft(all & all.constant(0x80), all.constant(24));
  value = copysign(value, asFloat(signedBits));
  return select(isNan, value.constant(std::numeric_limits<double>::quiet_NaN()), value);
}

Element kernel::decodeFloat8ToHalf(Element x) {
  Format format = formatOf(x.type());
  ImplicitLocOpBuilder &b = x.b();
  Type i16 = b.getI16Type(), f16 = b.getF16Type();
  constexpr int64_t halfMantissa = 10, halfBias = 15;
  if (format.bias > halfBias) // the largest exponent is no infinity's
    return convert(decodeFloat8(x), f16);
  Element all =
      convert(x.make(x.value(), IntegerType::get(b.getContext(), 8, IntegerType::Unsigned)), i16);
  Element magnitude = all & all.constant(0x7f);
  Element bits = shiftLeft(magnitude, all.constant(halfMantissa - format.mantissa)) |
                 shiftLeft(all & all.constant(0x80), all.constant(8));
  Element value = x.make(arith::BitcastOp::create(b, f16, bits.value()), f16);
  if (format.bias == halfBias)
    return value;
  value = value * value.constant(std::ldexp(1.0, static_cast<int>(halfBias - format.bias)));
  Element isNan = format.unsignedZero ? all == all.constant(0x80) : magnitude == all.constant(0x7f);
  return select(isNan, value.constant(std::numeric_limits<double>::quiet_NaN()), value);
}
