// kernel-find-causal: attention whose bias is -inf for all keys after the query leaves them out.
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELFINDCAUSAL
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using arith::CmpIPredicate;
using sym::Expr;

namespace {

/// A comparison in the condition of a bias that is `value` for all keys after the query, and the
/// opposite for all others if `isExact`.
struct Comparison {
  arith::CmpIOp op;
  bool value, isExact;
};

/// The index that a value is, an expression of the region's dims.
std::optional<Expr> getIndex(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return Expr(constant.getSExtValue());
  auto index = value.getDefiningOp<IndexOp>();
  if (!index || !index.getValues().empty())
    return std::nullopt;
  return index.getMap().getResults().front();
}

/// `a <= b` says the same as the comparison.
std::optional<std::pair<Expr, Expr>> getOrder(CmpIPredicate predicate, Expr a, Expr b) {
  switch (predicate) {
  case CmpIPredicate::sle:
    return std::pair(a, b);
  case CmpIPredicate::slt:
    return std::pair(a + 1, b);
  case CmpIPredicate::sge:
    return std::pair(b, a);
  case CmpIPredicate::sgt:
    return std::pair(b + 1, a);
  default:
    return std::nullopt;
  }
}

/// The comparison that makes `condition` be `value` wherever `key` is greater than `query`.
std::optional<Comparison> findComparison(Value condition, bool value, Expr query, Expr key) {
  Operation *op = condition.getDefiningOp();
  if (auto compare = dyn_cast_or_null<arith::CmpIOp>(op)) {
    std::optional<Expr> a = getIndex(compare.getLhs()), b = getIndex(compare.getRhs());
    if (!a || !b)
      return std::nullopt;
    // Keys for which the order holds are so many steps before the query, or more.
    CmpIPredicate predicate = compare.getPredicate();
    auto order = getOrder(value ? arith::invertPredicate(predicate) : predicate, *a, *b);
    if (!order)
      return std::nullopt;
    std::optional<int64_t> before = (query - key - (order->second - order->first)).constant();
    if (!before || *before < 0)
      return std::nullopt;
    return Comparison{compare, value, *before == 0};
  }
  // One false part makes all of an `and` false, and one true part all of an `or` true.
  bool isPart = value ? isa_and_nonnull<arith::OrIOp>(op) : isa_and_nonnull<arith::AndIOp>(op);
  if (isPart)
    for (Value operand : op->getOperands())
      if (auto found = findComparison(operand, value, query, key))
        return found;
  // A condition that is turned over.
  if (auto negation = dyn_cast_or_null<arith::XOrIOp>(op);
      negation && matchPattern(negation.getRhs(), m_One()))
    return findComparison(negation.getLhs(), !value, query, key);
  return std::nullopt;
}

bool isLowest(Value value) { return matchPattern(value, m_NegInfFloat()); }

/// The condition and its value for which the bias is -inf.
std::optional<std::pair<Value, bool>> getCondition(Value bias) {
  auto select = bias.getDefiningOp<arith::SelectOp>();
  if (!select || !select.getCondition().getType().isInteger(1))
    return std::nullopt;
  if (isLowest(select.getFalseValue()))
    return std::pair(select.getCondition(), false);
  if (isLowest(select.getTrueValue()))
    return std::pair(select.getCondition(), true);
  return std::nullopt;
}

/// The bias is added to what is otherwise made of the scores: where it is -inf, they are.
bool isAdded(AttentionOp attention) {
  if (attention.getScore().empty())
    return true;
  BlockArgument bias = attention.getScore().getArgument(1);
  Operation *yield = attention.getScore().front().getTerminator();
  auto sum = yield->getOperand(0).getDefiningOp<arith::AddFOp>();
  return sum && bias.hasOneUse() && *bias.user_begin() == sum;
}

/// True if `attention` has become causal.
bool findCausal(AttentionOp attention) {
  // A single query is a matter of few keys, which targets have other ways for.
  if (attention.getCausal() || attention.getBias().empty() || !isAdded(attention) ||
      attention.getM().getValue().isConstant(1))
    return false;
  unsigned query = attention.getNumBatch();
  Operation *yield = attention.getBias().front().getTerminator();
  auto condition = getCondition(yield->getOperand(0));
  if (!condition)
    return false;
  auto found =
      findComparison(condition->first, condition->second, Expr::dim(query), Expr::dim(query + 1));
  if (!found)
    return false;
  attention.setCausal(true);
  if (!found->isExact)
    return true;
  OpBuilder b(found->op);
  Value holds = arith::ConstantIntOp::create(b, found->op.getLoc(), !found->value, 1);
  found->op.replaceAllUsesWith(holds);
  found->op.erase();
  return true;
}

struct FindCausal : kiln::impl::KernelFindCausalBase<FindCausal> {
  void runOnOperation() override {
    getOperation()->walk([](AttentionOp attention) { findCausal(attention); });
  }
};

} // namespace
