// codegen-round-in-range: clamps before it rounds, so that rounding and conversion are one instruction.
//
//   i32(clamp(roundeven(x) + zero, least, most)) = lrint(clamp(x, least - zero, most - zero)) + zero
//
// for whole numbers least, most and zero, since rounding is monotone and leaves whole numbers as they are. Kernels run with the
// rounding mode to nearest, ties to even (docs/abi.md). NaN is what it was: the conversion's integer, or `least` of 0.
#include "Number.h"
#include "kiln/Codegen/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

namespace kiln::codegen {
#define GEN_PASS_DEF_CODEGENROUNDINRANGE
#include "kiln/Codegen/Passes.h.inc"
} // namespace kiln::codegen

using namespace mlir;
using kiln::codegen::getNumber;

namespace {

/// The number that `value`, or each element of it, is, if it is a whole one that float32 adds exactly.
std::optional<int64_t> getWhole(Value value) {
  constexpr double most = 1 << 22;
  std::optional<double> number = getNumber(value);
  if (!number || !(std::abs(*number) <= most) || std::trunc(*number) != *number)
    return std::nullopt;
  return static_cast<int64_t>(*number);
}

/// `value` is at least 0, or NaN, as what an activation has bounded is.
bool isAtLeastZero(Value value) {
  if (std::optional<double> number = getNumber(value))
    return *number >= 0;
  if (auto product = value.getDefiningOp<arith::MulFOp>())
    return isAtLeastZero(product.getLhs()) && isAtLeastZero(product.getRhs());
  auto select = value.getDefiningOp<arith::SelectOp>();
  if (!select || !isAtLeastZero(select.getTrueValue()))
    return false;
  // x < 0 ? 0 : x
  auto compare = select.getCondition().getDefiningOp<arith::CmpFOp>();
  return (compare && compare.getPredicate() == arith::CmpFPredicate::OLT &&
          compare.getLhs() == select.getFalseValue() && getNumber(compare.getRhs()) == 0) ||
         isAtLeastZero(select.getFalseValue());
}

/// Takes the whole number off that `Op` combines `value` with; nothing if it does not.
template <typename Op> std::optional<int64_t> strip(Value &value) {
  auto op = value.getDefiningOp<Op>();
  if (!op)
    return std::nullopt;
  for (unsigned i : {0u, 1u})
    if (std::optional<int64_t> number = getWhole(op->getOperand(i))) {
      value = op->getOperand(1 - i);
      return number;
    }
  return std::nullopt;
}

struct RoundInRange : kiln::codegen::impl::CodegenRoundInRangeBase<RoundInRange> {
  using CodegenRoundInRangeBase::CodegenRoundInRangeBase;

  void runOnOperation() override {
    getOperation().walk([](arith::FPToSIOp convert) { rewrite(convert); });
  }

private:
  static void rewrite(arith::FPToSIOp convert) {
    Value value = convert.getIn();
    if (!getElementTypeOrSelf(value.getType()).isF32() ||
        !getElementTypeOrSelf(convert.getType()).isInteger(32))
      return;
    std::optional<int64_t> most = strip<arith::MinimumFOp>(value),
                           least = strip<arith::MaximumFOp>(value);
    if (!most)
      most = strip<arith::MinimumFOp>(value);
    if (!most || !least || *most < *least)
      return;
    int64_t zero = strip<arith::AddFOp>(value).value_or(0);
    auto round = value.getDefiningOp<math::RoundEvenOp>();
    // The integer of NaN, in the low bits of which is 0, would no longer have 0 there.
    if (!round || (zero != 0 && *least != 0))
      return;
    OpBuilder b(convert);
    Location loc = convert.getLoc();
    Value x = round.getOperand();
    auto constant = [&](int64_t number) -> Value {
      auto attribute = b.getF32FloatAttr(static_cast<float>(number));
      if (auto type = dyn_cast<VectorType>(x.getType()))
        return arith::ConstantOp::create(b, loc,
                                         DenseElementsAttr::get(type, attribute.getValue()));
      return arith::ConstantOp::create(b, loc, attribute);
    };
    auto choose = [&](arith::CmpFPredicate predicate, Value a, Value bound, bool isKept) -> Value {
      Value condition = arith::CmpFOp::create(b, loc, predicate, a, bound);
      return isKept ? arith::SelectOp::create(b, loc, condition, a, bound)
                    : arith::SelectOp::create(b, loc, condition, bound, a);
    };
    // Comparisons with NaN are false.
    Value low = constant(*least - zero), high = constant(*most - zero);
    Value inside = x;
    if (zero != 0)
      inside = choose(arith::CmpFPredicate::OGT, x, low, /*isKept=*/true);
    else if (*least > 0 || !isAtLeastZero(x))
      inside = choose(arith::CmpFPredicate::OLT, x, low, /*isKept=*/false);
    inside = choose(arith::CmpFPredicate::OGT, inside, high, /*isKept=*/false);
    Value rounded = LLVM::LrintOp::create(b, loc, convert.getType(), inside);
    if (zero != 0) {
      TypedAttr offset = b.getI32IntegerAttr(static_cast<int32_t>(zero));
      if (auto type = dyn_cast<VectorType>(convert.getType()))
        offset = DenseElementsAttr::get(type,
                                        b.getI32IntegerAttr(static_cast<int32_t>(zero)).getValue());
      rounded = arith::AddIOp::create(b, loc, rounded, arith::ConstantOp::create(b, loc, offset));
    }
    convert.replaceAllUsesWith(rounded);
    convert.erase();
  }
};

} // namespace
