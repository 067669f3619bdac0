// Scalars of region code, with the arithmetic of PyTorch's kernels.
//
// A region holds integers without a sign; an Element is such a value together with the tensor
// element type it came from (`ui8`, `i1`, `bf16`, …), which says what its bits mean. Operators take
// operands of one type and give that type (comparisons give `i1`): promotion is the caller's
// (Promotion.h), as is computing half-precision types in single (`opmath`).
//
// Semantics are those of ATen's CPU kernels: integers wrap around, `maximum` and `minimum` give NaN
// when either operand is NaN, `i1` adds with `or` and multiplies with `and`. Integer division by
// zero, an error in eager mode, gives an unspecified value and never traps.
#ifndef KILN_DIALECT_KERNEL_BUILDER_ELEMENT_H
#define KILN_DIALECT_KERNEL_BUILDER_ELEMENT_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <complex>

namespace kiln::kernel {

//===-- Element types -------------------------------------------------------------------------===//

inline bool isBool(mlir::Type type) { return type.isInteger(1); }
/// An integer type other than bool.
inline bool isInt(mlir::Type type) { return mlir::isa<mlir::IntegerType>(type) && !isBool(type); }
inline bool isUnsigned(mlir::Type type) { return type.isUnsignedInteger() || isBool(type); }
inline bool isFloat(mlir::Type type) { return mlir::isa<mlir::FloatType>(type); }
inline bool isComplex(mlir::Type type) { return mlir::isa<mlir::ComplexType>(type); }
/// The type PyTorch computes in: f32 for floating-point types narrower than it, also as the parts
/// of complex numbers, otherwise the type.
mlir::Type opmath(mlir::Type type);

//===-- Elements ------------------------------------------------------------------------------===//

class Element {
public:
  Element() = default;
  /// `value` is signless; `type` is the tensor element type.
  Element(mlir::ImplicitLocOpBuilder &builder, mlir::Value value, mlir::Type type)
      : builder(&builder), bits(value), elementType(type) {}

  explicit operator bool() const { return static_cast<bool>(bits); }
  mlir::Value value() const { return bits; }
  mlir::Type type() const { return elementType; }
  mlir::ImplicitLocOpBuilder &b() const { return *builder; }

  /// Another value of this type, or of `type`.
  Element make(mlir::Value value) const { return {*builder, value, elementType}; }
  Element make(mlir::Value value, mlir::Type type) const { return {*builder, value, type}; }
  /// A constant of this type.
  Element constant(double value) const;
  Element constant(int64_t value) const;
  Element constant(int value) const { return constant(static_cast<int64_t>(value)); }

private:
  mlir::ImplicitLocOpBuilder *builder = nullptr;
  mlir::Value bits;
  mlir::Type elementType;
};

/// A constant; a number that the type cannot hold is converted as C++ does (integers wrap, a float
/// becomes an integer by truncation, anything but zero becomes true).
Element constant(mlir::ImplicitLocOpBuilder &builder, mlir::Type type, double value);
Element constant(mlir::ImplicitLocOpBuilder &builder, mlir::Type type, int64_t value);
Element constant(mlir::ImplicitLocOpBuilder &builder, mlir::Type type, std::complex<double> value);
/// The identities of maximum and minimum: -inf or the smallest integer, +inf or the largest.
Element lowest(mlir::ImplicitLocOpBuilder &builder, mlir::Type type);
Element highest(mlir::ImplicitLocOpBuilder &builder, mlir::Type type);

/// `tensor.to(type)`: floats to integers by truncation (to `ui8` through i64), anything but zero to
/// true, wider integers by dropping bits, floats rounded to nearest even (f64 and integers to a
/// half-precision type through f32, as c10 does), complex numbers to real ones by their real part.
Element convert(Element x, mlir::Type type);
/// a + b computed in opmath's type and rounded to their own: how a scatter adds.
Element addInOpmath(Element a, Element b);

//===-- Arithmetic ----------------------------------------------------------------------------===//

Element operator+(Element a, Element b);
Element operator-(Element a, Element b); // not of bools
Element operator*(Element a, Element b);
Element operator/(Element a, Element b); // of floats and complex numbers
Element operator-(Element x);
inline Element operator+(Element a, double b) { return a + a.constant(b); }
inline Element operator-(Element a, double b) { return a - a.constant(b); }
inline Element operator*(Element a, double b) { return a * a.constant(b); }
inline Element operator/(Element a, double b) { return a / a.constant(b); }
inline Element operator+(double a, Element b) { return b.constant(a) + b; }
inline Element operator-(double a, Element b) { return b.constant(a) - b; }
inline Element operator*(double a, Element b) { return b.constant(a) * b; }
inline Element operator/(double a, Element b) { return b.constant(a) / b; }

/// torch.div(rounding_mode='trunc') and 'floor'; torch.remainder (sign of the divisor); torch.fmod.
Element truncDiv(Element a, Element b);
Element floorDiv(Element a, Element b);
Element remainder(Element a, Element b);
Element fmod(Element a, Element b);

Element maximum(Element a, Element b);
Element minimum(Element a, Element b);
/// x, or the bound that it is beyond: one instruction on x86. NaN stays, and so does a zero of
/// either sign beside a bound of zero. The bound is not NaN.
Element atLeast(Element x, Element bound);
Element atMost(Element x, Element bound);
Element fmax(Element a, Element b); // the operand that is a number
Element fmin(Element a, Element b);
Element abs(Element x); // of a complex number: its real-valued magnitude
Element pow(Element a, Element b);

//===-- Bits and truth ------------------------------------------------------------------------===//

Element operator&(Element a, Element b);
Element operator|(Element a, Element b);
Element operator^(Element a, Element b);
Element operator~(Element x);
/// Shifts by a negative amount or by the width and more are those of torch: 0, or the sign.
Element shiftLeft(Element a, Element b);
Element shiftRight(Element a, Element b);

Element operator==(Element a, Element b);
Element operator!=(Element a, Element b);
Element operator<(Element a, Element b);
Element operator<=(Element a, Element b);
inline Element operator>(Element a, Element b) { return b < a; }
inline Element operator>=(Element a, Element b) { return b <= a; }

Element isNan(Element x);
Element isInf(Element x);
/// `x != 0`, as a condition.
Element isTrue(Element x);
Element select(Element condition, Element a, Element b);

/// Steps from `init` for as long as the condition that a step gives is true, but no more than
/// `limit` of them.
llvm::SmallVector<Element>
iterate(int64_t limit, llvm::ArrayRef<Element> init,
        llvm::function_ref<std::pair<Element, llvm::SmallVector<Element>>(llvm::ArrayRef<Element>)>
            step);

//===-- Functions of floats -------------------------------------------------------------------===//

template <typename Op> Element apply(Element x) {
  return x.make(Op::create(x.b(), x.value()).getResult());
}
template <typename Op> Element apply(Element x, Element y) {
  return x.make(Op::create(x.b(), x.value(), y.value()).getResult());
}
inline Element exp(Element x) { return apply<mlir::math::ExpOp>(x); }
inline Element log(Element x) { return apply<mlir::math::LogOp>(x); }
inline Element sqrt(Element x) { return apply<mlir::math::SqrtOp>(x); }
Element hypot(Element a, Element b);
inline Element rsqrt(Element x) { return 1.0 / sqrt(x); }
inline Element tanh(Element x) { return apply<mlir::math::TanhOp>(x); }
inline Element erf(Element x) { return apply<mlir::math::ErfOp>(x); }
inline Element expm1(Element x) { return apply<mlir::math::ExpM1Op>(x); }
inline Element log1p(Element x) { return apply<mlir::math::Log1pOp>(x); }
inline Element floor(Element x) { return apply<mlir::math::FloorOp>(x); }
inline Element ceil(Element x) { return apply<mlir::math::CeilOp>(x); }
inline Element trunc(Element x) { return apply<mlir::math::TruncOp>(x); }
inline Element roundEven(Element x) { return apply<mlir::math::RoundEvenOp>(x); }
inline Element copysign(Element a, Element b) { return apply<mlir::math::CopySignOp>(a, b); }
Element sigmoid(Element x);

//===-- Complex numbers -----------------------------------------------------------------------===//

Element real(Element x);
Element imag(Element x);
Element makeComplex(Element re, Element im);

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_BUILDER_ELEMENT_H
