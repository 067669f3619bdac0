// Shorthands for writing formulas in IR, and the elementary functions written with them.
#ifndef KILN_LIB_CODEGEN_MATHBUILDER_H
#define KILN_LIB_CODEGEN_MATHBUILDER_H

#include "kiln/Codegen/KernelFrame.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include <cmath>

namespace kiln::codegen {

/// Builds operations on one floating-point type (f32 or f64, or vectors of them) and the integer
/// type of the same width. Nothing here may be contracted or reassociated: error terms depend on
/// it.
class MathBuilder {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;

  /// Instructions that only some targets have.
  struct Features {
    bool scale = false;  ///< multiplies by 2^n (AVX-512's vscalef)
    bool exp2 = false;   ///< 2^x of f32 to 2 ulp (a GPU's ex2.approx)
    unsigned tables = 0; ///< f32 of a table in registers: 32 (vpermi2ps), 8 (vpermps) or none
  };
  MathBuilder(mlir::OpBuilder &builder, mlir::Location loc, Type type, Features has)
      : b(builder), loc(loc), type(type), element(mlir::getElementTypeOrSelf(type)),
        integer(builder.getIntegerType(element.getIntOrFloatBitWidth())), has(has) {}

  /// The same shape, another element.
  MathBuilder with(Type newElement) const { return MathBuilder(b, loc, shaped(newElement), has); }
  bool isF64() const { return element.isF64(); }

  Value c(double value) const { return constant(b.getFloatAttr(element, value)); }
  Value i(int64_t value) const {
    return constant(b.getIntegerAttr(integer, llvm::APInt(integer.getIntOrFloatBitWidth(), value,
                                                          /*isSigned=*/true)));
  }
  Value infinity() const { return c(INFINITY); }
  Value nan() const { return c(NAN); }

  Value add(Value x, Value y) const { return mlir::arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) const { return mlir::arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) const { return mlir::arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) const { return mlir::arith::DivFOp::create(b, loc, x, y); }
  Value neg(Value x) const { return mlir::arith::NegFOp::create(b, loc, x); }
  Value fma(Value x, Value y, Value z) const { return mlir::math::FmaOp::create(b, loc, x, y, z); }
  Value abs(Value x) const { return mlir::math::AbsFOp::create(b, loc, x); }
  Value sqrt(Value x) const { return mlir::math::SqrtOp::create(b, loc, x); }
  Value floor(Value x) const { return mlir::math::FloorOp::create(b, loc, x); }
  Value copysign(Value x, Value sign) const {
    return mlir::math::CopySignOp::create(b, loc, x, sign);
  }
  /// An LLVM intrinsic, such as those of a GPU's approximate instructions.
  Value intrinsic(llvm::StringRef name, Value x) const {
    return mlir::LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(name), x).getResult(0);
  }
  /// The elements of a table of `has.tables` f32 that the lowest bits of `index` number; f32.
  Value lookUp(llvm::ArrayRef<float> table, Value index) const;
  /// ((c0*x + c1)*x + c2)*x …
  Value poly(Value x, llvm::ArrayRef<double> coefficients) const {
    Value result = c(coefficients.front());
    for (double coefficient : coefficients.drop_front())
      result = fma(result, x, c(coefficient));
    return result;
  }

  /// Comparisons are false for NaN, but ne.
  Value lt(Value x, Value y) const { return compare(mlir::arith::CmpFPredicate::OLT, x, y); }
  Value le(Value x, Value y) const { return compare(mlir::arith::CmpFPredicate::OLE, x, y); }
  Value gt(Value x, Value y) const { return compare(mlir::arith::CmpFPredicate::OGT, x, y); }
  Value ge(Value x, Value y) const { return compare(mlir::arith::CmpFPredicate::OGE, x, y); }
  Value eq(Value x, Value y) const { return compare(mlir::arith::CmpFPredicate::OEQ, x, y); }
  Value ne(Value x, Value y) const { return compare(mlir::arith::CmpFPredicate::UNE, x, y); }
  Value isNaN(Value x) const { return compare(mlir::arith::CmpFPredicate::UNO, x, x); }
  Value isFinite(Value x) const { return lt(abs(x), infinity()); }
  Value both(Value x, Value y) const { return mlir::arith::AndIOp::create(b, loc, x, y); }
  Value either(Value x, Value y) const { return mlir::arith::OrIOp::create(b, loc, x, y); }
  Value select(Value condition, Value x, Value y) const {
    return mlir::arith::SelectOp::create(b, loc, condition, x, y);
  }
  /// `low` and `high` bound x; NaN stays.
  Value clamp(Value x, double low, double high) const {
    if (has.exp2) { // and minima that keep NaN
      x = mlir::arith::MinimumFOp::create(b, loc, x, c(high));
      return mlir::arith::MaximumFOp::create(b, loc, x, c(low));
    }
    x = select(gt(x, c(high)), c(high), x);
    return select(lt(x, c(low)), c(low), x);
  }

  Value bits(Value x) const { return mlir::arith::BitcastOp::create(b, loc, shaped(integer), x); }
  Value fromBits(Value x) const { return mlir::arith::BitcastOp::create(b, loc, type, x); }
  Value iadd(Value x, Value y) const { return mlir::arith::AddIOp::create(b, loc, x, y); }
  Value isub(Value x, Value y) const { return mlir::arith::SubIOp::create(b, loc, x, y); }
  Value iand(Value x, Value y) const { return mlir::arith::AndIOp::create(b, loc, x, y); }
  Value ixor(Value x, Value y) const { return mlir::arith::XOrIOp::create(b, loc, x, y); }
  Value shl(Value x, int64_t n) const { return mlir::arith::ShLIOp::create(b, loc, x, i(n)); }
  Value shr(Value x, int64_t n) const { return mlir::arith::ShRUIOp::create(b, loc, x, i(n)); }
  Value sra(Value x, int64_t n) const { return mlir::arith::ShRSIOp::create(b, loc, x, i(n)); }
  Value ine(Value x, Value y) const {
    return mlir::arith::CmpIOp::create(b, loc, mlir::arith::CmpIPredicate::ne, x, y);
  }

  Value extend(Value x, Type newElement) const {
    return mlir::arith::ExtFOp::create(b, loc, shaped(newElement), x);
  }
  Value truncate(Value x, Type newElement) const {
    return mlir::arith::TruncFOp::create(b, loc, shaped(newElement), x);
  }

  // Format constants.
  int64_t mantissaBits() const { return isF64() ? 52 : 23; }
  int64_t bias() const { return isF64() ? 1023 : 127; }
  /// x + roundingMagic() has the integer nearest to x in its lowest bits.
  double roundingMagic() const { return isF64() ? 6755399441055744.0 : 12582912.0; }
  /// 2^n for an integer n in the range of normal numbers.
  Value exponent(Value n) const { return fromBits(shl(iadd(n, i(bias())), mantissaBits())); }

  Type shaped(Type newElement) const { return withElements(type, newElement); }

  mlir::OpBuilder &b;
  mlir::Location loc;
  Type type, element, integer;
  Features has;

private:
  Value constant(mlir::TypedAttr value) const {
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      value = mlir::SplatElementsAttr::get(vector.clone(value.getType()), mlir::Attribute(value));
    return mlir::arith::ConstantOp::create(b, loc, value);
  }
  Value compare(mlir::arith::CmpFPredicate predicate, Value x, Value y) const {
    return mlir::arith::CmpFOp::create(b, loc, predicate, x, y);
  }
};

// f32 and f64, with what the type asks for.
mlir::Value expandExp(const MathBuilder &m, mlir::Value x, bool flushes = false);
/// exp(x) of x <= 0, 0 where that would be denormal: a weight of softmax (math.exp with the flag afn).
mlir::Value expandWeight(const MathBuilder &m, mlir::Value x);
mlir::Value expandExpM1(const MathBuilder &m, mlir::Value x);
mlir::Value expandLog(const MathBuilder &m, mlir::Value x);
mlir::Value expandLog1p(const MathBuilder &m, mlir::Value x);
mlir::Value expandTanh(const MathBuilder &m, mlir::Value x);
mlir::Value expandErf(const MathBuilder &m, mlir::Value x);
mlir::Value expandSinCos(const MathBuilder &m, mlir::Value x, bool isCos);
mlir::Value expandFmod(const MathBuilder &m, mlir::Value x, mlir::Value y);

// f32 only, where `has.tables`.
mlir::Value erfByPieces(const MathBuilder &m, mlir::Value x);
mlir::Value tanhByPieces(const MathBuilder &m, mlir::Value x);

// f64 only.
mlir::Value expandExp2(const MathBuilder &m, mlir::Value x);
mlir::Value expandLogBase(const MathBuilder &m, mlir::Value x, double base);
mlir::Value expandErfc(const MathBuilder &m, mlir::Value x);
mlir::Value expandPow(const MathBuilder &m, mlir::Value x, mlir::Value y);
mlir::Value expandTan(const MathBuilder &m, mlir::Value x);
mlir::Value expandAtan(const MathBuilder &m, mlir::Value x);
mlir::Value expandAtan2(const MathBuilder &m, mlir::Value y, mlir::Value x);
mlir::Value expandAsin(const MathBuilder &m, mlir::Value x);
mlir::Value expandAcos(const MathBuilder &m, mlir::Value x);
mlir::Value expandSinh(const MathBuilder &m, mlir::Value x);
mlir::Value expandCosh(const MathBuilder &m, mlir::Value x);
mlir::Value expandAsinh(const MathBuilder &m, mlir::Value x);
mlir::Value expandAcosh(const MathBuilder &m, mlir::Value x);
mlir::Value expandAtanh(const MathBuilder &m, mlir::Value x);
mlir::Value expandCbrt(const MathBuilder &m, mlir::Value x);

} // namespace kiln::codegen

#endif // KILN_LIB_CODEGEN_MATHBUILDER_H
