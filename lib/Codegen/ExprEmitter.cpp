// Integer expressions of sym as operations on 64-bit integers, with or without a check of overflow.
#include "kiln/Codegen/ExprEmitter.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

Value ExprEmitter::constant(int64_t value) {
  return LLVM::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
}

template <typename PlainOp, typename CheckedOp> Value ExprEmitter::combine(Value a, Value b) {
  if (!checked)
    return PlainOp::create(builder, loc, a, b);
  auto type =
      LLVM::LLVMStructType::getLiteral(builder.getContext(), {a.getType(), builder.getI1Type()});
  Value pair = CheckedOp::create(builder, loc, type, a, b);
  Value flag = LLVM::ExtractValueOp::create(builder, loc, pair, 1);
  overflow = overflow ? LLVM::OrOp::create(builder, loc, overflow, flag).getResult() : flag;
  return LLVM::ExtractValueOp::create(builder, loc, pair, 0);
}

Value ExprEmitter::floorDiv(Value a, Value b) {
  // Division by 0 and of the smallest number by -1 have no value: they divide by 1.
  Value zero = constant(0), one = constant(1);
  auto compare = [&](LLVM::ICmpPredicate predicate, Value x, Value y) -> Value {
    return LLVM::ICmpOp::create(builder, loc, predicate, x, y);
  };
  if (auto divisor = b.getDefiningOp<LLVM::ConstantOp>();
      !divisor || cast<IntegerAttr>(divisor.getValue()).getInt() <= 0) {
    Value isZero = compare(LLVM::ICmpPredicate::eq, b, zero);
    Value isMinusOne = compare(LLVM::ICmpPredicate::eq, b, constant(-1));
    Value isSmallest = compare(LLVM::ICmpPredicate::eq, a, constant(INT64_MIN));
    Value bad = LLVM::OrOp::create(builder, loc, isZero,
                                   LLVM::AndOp::create(builder, loc, isMinusOne, isSmallest));
    b = LLVM::SelectOp::create(builder, loc, bad, one, b);
    if (checked)
      overflow = overflow ? LLVM::OrOp::create(builder, loc, overflow, bad).getResult() : bad;
  }
  // Truncated division rounds a negative quotient up.
  Value quotient = LLVM::SDivOp::create(builder, loc, a, b);
  Value rest = LLVM::SRemOp::create(builder, loc, a, b);
  Value inexact = compare(LLVM::ICmpPredicate::ne, rest, zero);
  Value differ =
      compare(LLVM::ICmpPredicate::slt, LLVM::XOrOp::create(builder, loc, rest, b), zero);
  Value adjust = LLVM::AndOp::create(builder, loc, inexact, differ);
  return LLVM::SubOp::create(builder, loc, quotient,
                             LLVM::ZExtOp::create(builder, loc, builder.getI64Type(), adjust));
}

Value ExprEmitter::emitTerm(sym::Expr expr) {
  auto fold = [&](auto &&combineTwo) {
    Value value = emitTerm(expr.operands().front());
    for (sym::Expr operand : expr.operands().drop_front())
      value = combineTwo(value, emitTerm(operand));
    return value;
  };
  switch (expr.kind()) {
  case sym::Kind::Constant:
    return constant(*expr.constant());
  case sym::Kind::Symbol:
    return symbol(expr.symbolName());
  case sym::Kind::Add:
    return fold(
        [&](Value a, Value b) { return combine<LLVM::AddOp, LLVM::SAddWithOverflowOp>(a, b); });
  case sym::Kind::Mul:
    return fold(
        [&](Value a, Value b) { return combine<LLVM::MulOp, LLVM::SMulWithOverflowOp>(a, b); });
  case sym::Kind::FloorDiv:
    return fold([&](Value a, Value b) { return floorDiv(a, b); });
  case sym::Kind::Min:
    return fold(
        [&](Value a, Value b) -> Value { return LLVM::SMinOp::create(builder, loc, a, b); });
  case sym::Kind::Max:
    return fold(
        [&](Value a, Value b) -> Value { return LLVM::SMaxOp::create(builder, loc, a, b); });
  case sym::Kind::Invalid:
  case sym::Kind::Dim:
    break;
  }
  llvm_unreachable("not an expression over symbols: the verifiers let none of these pass");
}

Value ExprEmitter::emit(sym::Expr expr) {
  checked = false;
  return emitTerm(expr);
}

Value ExprEmitter::emitChecked(sym::Expr expr) {
  checked = true;
  overflow = {};
  Value value = emitTerm(expr);
  if (!overflow)
    return value;
  return LLVM::SelectOp::create(builder, loc, overflow, constant(INT64_MIN), value);
}
