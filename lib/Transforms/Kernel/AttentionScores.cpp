// Epilogues of products before a softmax, as an attention computes them.
#include "AttentionScores.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

//===-- Constants -----------------------------------------------------------------------------===//

/// The constant that `value` is, or that all of a tensor is that it has been read from; null if it
/// is none.
static Attribute getConstant(Value value) {
  Attribute constant;
  if (matchPattern(value, m_Constant(&constant)))
    return constant;
  Operation *op = value.getDefiningOp();
  if (auto read = dyn_cast_or_null<ReadOp>(op); read && !read.getMask()) {
    auto map = read.getTensor().getDefiningOp<MapOp>();
    return map && map->getNumResults() == 1 ? getConstant(getYielded(map.getBody())) : Attribute();
  }
  if (!op || op->getNumRegions() != 0 || op->getNumOperands() != 1 || !isPure(op))
    return {};
  SmallVector<OpFoldResult> folded;
  Attribute operand = getConstant(op->getOperand(0));
  if (!operand || failed(op->fold(operand, folded)) || folded.size() != 1)
    return {};
  return dyn_cast<Attribute>(folded.front());
}

void kernel::foldConstants(RewriterBase &rewriter, Region &epilogue) {
  for (Operation &op : llvm::make_early_inc_range(epilogue.front().without_terminator())) {
    if (op.getNumResults() != 1 || isa<arith::ConstantOp>(op))
      continue;
    rewriter.setInsertionPoint(&op);
    auto select = dyn_cast<arith::SelectOp>(op);
    APInt holds;
    if (select && matchPattern(select.getCondition(), m_ConstantInt(&holds)))
      rewriter.replaceOp(&op, holds.isOne() ? select.getTrueValue() : select.getFalseValue());
    else if (auto constant = dyn_cast_or_null<TypedAttr>(getConstant(op.getResult(0))))
      rewriter.replaceOpWithNewOp<arith::ConstantOp>(&op, constant);
  }
}

/// So low that nothing is left of a sum that is added: in a row of nothing else all weights are
/// equal either way.
static bool isLowest(Value value) {
  FloatAttr number;
  return matchPattern(value, m_Constant(&number)) && number.getValueAsDouble() <= -1e30;
}

//===-- The function --------------------------------------------------------------------------===//

std::optional<AttentionScores> AttentionScores::match(Region &epilogue, bool canCompute) {
  AttentionScores scores(epilogue);
  if (scores.isLinear(getYielded(epilogue)))
    return scores;
  scores = AttentionScores(epilogue);
  if (canCompute && scores.isFunction(getYielded(epilogue)))
    return scores;
  return std::nullopt;
}

AttentionScores::AttentionScores(Region &epilogue) : sum(epilogue.getArgument(0)) {
  dependents.insert(sum);
  for (Operation &op : epilogue.front())
    op.walk([&](Operation *inner) {
      if (llvm::any_of(inner->getOperands(), [&](Value value) { return dependsOnSum(value); }))
        dependents.insert_range(op.getResults());
    });
}

/// The value depending on the sum that `op` adds something to, or leaves out; null for another op.
Value AttentionScores::getAddedTo(Operation *op) const {
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    bool first = dependsOnSum(select.getTrueValue());
    Value kept = first ? select.getTrueValue() : select.getFalseValue();
    Value left = first ? select.getFalseValue() : select.getTrueValue();
    return !dependsOnSum(select.getCondition()) && isLowest(left) ? kept : Value();
  }
  if (!isa<arith::AddFOp, arith::SubFOp>(op))
    return {};
  bool first = dependsOnSum(op->getOperand(0));
  if (dependsOnSum(op->getOperand(first ? 1 : 0)) || (isa<arith::SubFOp>(op) && !first))
    return {};
  return op->getOperand(first ? 0 : 1);
}

/// The value that `op` scales by a constant, which becomes part of `scale`; null for another op.
Value AttentionScores::getScaled(Operation *op) {
  bool divides = isa<arith::DivFOp>(op);
  if (!divides && !isa<arith::MulFOp>(op))
    return {};
  for (int i : {0, 1}) {
    FloatAttr factor;
    if ((divides && i == 1) || !dependsOnSum(op->getOperand(i)) ||
        !matchPattern(op->getOperand(1 - i), m_Constant(&factor)))
      continue;
    double number = factor.getValueAsDouble(), scaled = divides ? scale / number : scale * number;
    if (!std::isfinite(scaled))
      continue;
    scale = scaled;
    return op->getOperand(i);
  }
  return {};
}

/// Follows `value` back to the sum, through casts too.
bool AttentionScores::isLinear(Value value) {
  if (value == sum)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumRegions() != 0)
    return false;
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return isLinear(op->getOperand(0));
  if (Value kept = getAddedTo(op)) {
    hasBias = true;
    return isLinear(kept);
  }
  Value scaled = getScaled(op);
  bool hadBias = std::exchange(hasBias, false);
  if (!scaled || !isLinear(scaled) || hasBias) // a bias that is scaled with the sum
    return false;
  hasBias = hadBias;
  return true;
}

/// `value` is made by scalar ops of the sum, of constants, and of one number or condition.
bool AttentionScores::isFunction(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    Value kept = getAddedTo(op);
    if (!kept)
      break;
    hasBias = true;
    value = kept;
  }
  function = value;
  product = sum;
  if (sum.hasOneUse() && getScaled(*sum.user_begin()))
    product = sum.user_begin()->getResult(0);
  SmallVector<Value> pending{function};
  for (llvm::DenseSet<Value> seen; !pending.empty();) {
    Value next = pending.pop_back_val();
    if (next == product || !seen.insert(next).second)
      continue;
    Operation *op = next.getDefiningOp();
    if (!op || op->getNumRegions() != 0 || isa<IndexedOpInterface>(op))
      return false;
    for (Value operand : op->getOperands()) {
      if (dependsOnSum(operand)) {
        pending.push_back(operand);
      } else if (!matchPattern(operand, m_Constant())) {
        if (other && other != operand)
          return false;
        other = operand;
      }
    }
  }
  if (!other)
    return true;
  Type type = other.getType();
  return !std::exchange(hasBias, true) && (type == sum.getType() || type.isInteger(1));
}

//===-- The regions ---------------------------------------------------------------------------===//

void AttentionScores::fillBias(OpBuilder &builder, const DimSubstitution &substitution,
                               Region &bias) const {
  OpBuilder::InsertionGuard guard(builder);
  Location loc = sum.getLoc();
  builder.setInsertionPointToStart(&bias.emplaceBlock());
  auto number = [&](double value) -> Value {
    return arith::ConstantOp::create(builder, loc, builder.getFloatAttr(sum.getType(), value));
  };
  IRMapping mapping;
  // Minus zero is what changes no bias that is added.
  mapping.map(sum, number(-0.0));
  if (function && !other)
    mapping.map(function, mapping.lookup(sum));
  Block &epilogue = *cast<BlockArgument>(sum).getOwner();
  Value result = cloneBody(builder, epilogue, substitution, mapping).front();
  if (other)
    result = mapping.lookup(other);
  if (result.getType().isInteger(1))
    result = arith::SelectOp::create(builder, loc, result, number(1), number(0));
  YieldOp::create(builder, loc, result);
}

void AttentionScores::fillScore(OpBuilder &builder, Region &score) const {
  OpBuilder::InsertionGuard guard(builder);
  Location loc = function.getLoc();
  Type type = sum.getType();
  Block &block = score.emplaceBlock();
  builder.setInsertionPointToStart(&block);
  IRMapping mapping;
  mapping.map(product, block.addArgument(type, loc));
  Value bias = hasBias ? block.addArgument(type, loc) : Value();
  if (other && other.getType() != type) {
    Value zero = arith::ConstantOp::create(builder, loc, builder.getFloatAttr(type, 0));
    mapping.map(other, arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, bias, zero));
  } else if (other) {
    mapping.map(other, bias);
  }
  auto clone = [&](auto &clone, Value value) -> void {
    if (mapping.contains(value))
      return;
    for (Value operand : value.getDefiningOp()->getOperands())
      clone(clone, operand);
    builder.clone(*value.getDefiningOp(), mapping);
  };
  clone(clone, function);
  Value result = mapping.lookup(function);
  if (bias && !other)
    result = arith::AddFOp::create(builder, loc, result, bias);
  YieldOp::create(builder, loc, result);
}
