// Symbolic bools: what is computed from sizes alone is an expression.
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

/// Expressions are that of the condition; deeper nesting than a program has.
static constexpr unsigned maxNesting = 32;

static std::optional<sym::Expr> getNumber(Attribute attr) {
  if (auto expr = dyn_cast<sym::ExprAttr>(attr))
    return expr.getValue();
  if (auto integer = dyn_cast<IntegerAttr>(attr); integer && !isa<BoolAttr>(attr))
    return sym::Expr(integer.getInt());
  return std::nullopt;
}

static std::optional<sym::Expr> getCondition(Attribute attr, Operation *op, unsigned depth);

static std::optional<sym::Expr> getCondition(Value value, unsigned depth) {
  if (auto number = value.getDefiningOp<NumberOp>())
    return getCondition(number.getValue(), number, depth);
  auto call = value.getDefiningOp<CallOp>();
  if (!call || depth > maxNesting)
    return std::nullopt;
  ArrayRef<Attribute> args = call.getArgs().getValue();
  StringRef target = call.getTarget();
  if (target == "torch.sym_not" || target == "_operator.not_") {
    std::optional<sym::Expr> operand;
    if (args.size() == 1)
      operand = getCondition(args[0], call, depth + 1);
    return operand ? std::optional(-*operand - 1) : std::nullopt;
  }
  if (args.size() != 2)
    return std::nullopt;
  if (target == "_operator.and_" || target == "_operator.or_") {
    std::optional<sym::Expr> a = getCondition(args[0], call, depth + 1);
    std::optional<sym::Expr> b = getCondition(args[1], call, depth + 1);
    if (!a || !b)
      return std::nullopt;
    return target == "_operator.and_" ? sym::Expr::min(*a, *b) : sym::Expr::max(*a, *b);
  }
  std::optional<sym::Expr> a = getNumber(args[0]), b = getNumber(args[1]);
  if (!a || !b)
    return std::nullopt;
  sym::Expr difference = *a - *b, distance = sym::Expr::max(difference, -difference);
  return llvm::StringSwitch<std::optional<sym::Expr>>(target)
      .Case("_operator.ge", difference)
      .Case("_operator.gt", difference - 1)
      .Case("_operator.le", -difference)
      .Case("_operator.lt", -difference - 1)
      .Case("_operator.eq", -distance)
      .Case("_operator.ne", distance - 1)
      .Default(std::nullopt);
}

static std::optional<sym::Expr> getCondition(Attribute attr, Operation *op, unsigned depth) {
  if (auto constant = dyn_cast<BoolAttr>(attr))
    return sym::Expr(constant.getValue() ? 0 : -1);
  if (auto scalar = dyn_cast<ScalarAttr>(attr))
    return getCondition(op->getOperand(scalar.getIndex()), depth);
  return std::nullopt;
}

std::optional<sym::Expr> torch::getCondition(Attribute attr, Operation *op) {
  std::optional<sym::Expr> condition = ::getCondition(attr, op, 0);
  if (condition && !condition->isValid())
    return std::nullopt;
  return condition;
}
