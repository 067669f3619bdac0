// Right operands that are small integers: what they are computed of, and what they are once packed.
#include "CPU/Contract/SmallWeights.h"
#include "CPU/Contract/BlockFloats.h"
#include "CPU/Contract/ContractRegions.h"
#include "CPU/Contract/MultiplyGroups.h"
#include "CPU/Contract/Pairs.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::cpu;

/// Fewer steps with one scale than this are not kept apart.
static constexpr int64_t fewestSteps = wordSteps;

//===-- Ranges -------------------------------------------------------------------------------===//

namespace {
struct Bounds {
  int64_t least, most;
};
} // namespace

/// Bounds of bytes that are read, which include 0.
static std::optional<Bounds> getBounds(ReadOp read, bool isUnsigned) {
  if (!read.getType().isInteger(8))
    return std::nullopt;
  std::optional<ConstantBytes> bytes = getReadConstant(read);
  if (!bytes)
    return isUnsigned ? Bounds{0, 255} : Bounds{-128, 127};
  Bounds bounds{0, 0};
  for (char byte : bytes->data()) {
    int64_t value = isUnsigned ? int64_t(static_cast<uint8_t>(byte)) : static_cast<int8_t>(byte);
    bounds = {std::min(bounds.least, value), std::max(bounds.most, value)};
  }
  return bounds;
}

/// Bounds of an integer that is computed of constants; nothing: they are not known.
static std::optional<Bounds> getBounds(Value value, bool isUnsigned) {
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)))
    return Bounds{number.getSExtValue(), number.getSExtValue()};
  Operation *op = value.getDefiningOp();
  if (auto read = dyn_cast_or_null<ReadOp>(op))
    return getBounds(read, isUnsigned);
  if (isa_and_nonnull<arith::ExtSIOp, arith::ExtUIOp>(op))
    return getBounds(op->getOperand(0), isa<arith::ExtUIOp>(op));
  if (isa_and_nonnull<arith::AndIOp>(op) && matchPattern(op->getOperand(1), m_ConstantInt(&number)))
    return number.isNonNegative() ? std::optional(Bounds{0, number.getSExtValue()}) : std::nullopt;
  if (!isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op) || value.getType().isInteger(8))
    return std::nullopt;
  std::optional<Bounds> a = getBounds(op->getOperand(0), false);
  std::optional<Bounds> b = getBounds(op->getOperand(1), false);
  if (!a || !b)
    return std::nullopt;
  return isa<arith::AddIOp>(op) ? Bounds{a->least + b->least, a->most + b->most}
                                : Bounds{a->least - b->most, a->most - b->least};
}

//===-- Patterns -----------------------------------------------------------------------------===//

namespace {

/// Looks at a contract's right operand.
class Parser {
public:
  explicit Parser(ContractOp contract)
      : contract(contract), extents(contract.getExtents()),
        firstK(extents.size() - contract.getNumK()),
        assumptions(getAssumptions(&contract.getRhs())) {}

  std::optional<SmallWeights> parse(const char *&reason) {
    reason = "it is not computed of small integers by scales and zero points";
    SmallWeights weights;
    Value value = contract.getRhs().front().getTerminator()->getOperand(0);
    if (!contract.getEpilogue().getArgument(0).getType().isF32() || columnsAreBatch(contract) ||
        contract.getBytes())
      return std::nullopt;
    while (Value inner = stripStep(value, weights))
      value = inner;
    std::reverse(weights.steps.begin(), weights.steps.end());
    weights.isUnsigned = value.getDefiningOp<arith::UIToFPOp>() != nullptr;
    if (!isa_and_nonnull<arith::SIToFPOp, arith::UIToFPOp>(value.getDefiningOp()))
      return std::nullopt;
    weights.bits = value.getDefiningOp()->getOperand(0);
    std::optional<Bounds> bounds = getBounds(weights.bits, weights.isUnsigned);
    reason = "its integers have more than eight bits, or are read where data says";
    if (!bounds || bounds->most - bounds->least > 255 || bounds->least < -128 ||
        bounds->most > (bounds->least < 0 ? 127 : 255) || !isPlain(contract.getRhs()))
      return std::nullopt;
    weights.least = bounds->least;
    weights.most = bounds->most;
    weights.isUnsigned = weights.most > 127;
    return weights;
  }

private:
  static bool isPlain(Region &region) {
    return llvm::all_of(region.front(), [](Operation &op) {
      auto read = dyn_cast<ReadOp>(op);
      return op.getNumRegions() == 0 && !isa<InsideOp>(op) &&
             (!read || (!read.getMask() && read.getValues().empty()));
    });
  }

  /// All that `value` is computed of, in this region.
  static void collect(Value value, llvm::SetVector<Operation *> &cone) {
    Operation *op = value.getDefiningOp();
    if (op && cone.insert(op))
      for (Value operand : op->getOperands())
        if (Operation *next = operand.getDefiningOp(); next && next->getBlock() == op->getBlock())
          collect(operand, cone);
  }

  /// The most steps for which `value` does not change (0: all); nothing: fewer than are worth it.
  std::optional<int64_t> groupOf(Value value) {
    llvm::SetVector<Operation *> cone;
    collect(value, cone);
    std::optional<int64_t> found = 0;
    for (Operation *op : cone) {
      if (auto map = getIndexMap(op))
        for (sym::Expr expr : map.getResults())
          found = combine(found, groupOf(expr));
      if (!found)
        return std::nullopt;
    }
    return found;
  }

  static std::optional<int64_t> combine(std::optional<int64_t> a, std::optional<int64_t> b) {
    if (!a || !b)
      return std::nullopt;
    return std::gcd(*a, *b);
  }

  std::optional<int64_t> groupOf(sym::Expr expr) {
    for (unsigned dim = firstK; dim < extents.size(); ++dim) {
      if (!expr.dependsOn(sym::Expr::dim(dim)))
        continue;
      std::optional<int64_t> steps = extents[dim].constant();
      for (int64_t group = steps.value_or(0) / 2; group >= fewestSteps; --group)
        if (*steps % group == 0 &&
            isSameInGroups(contract.getExtents(), expr, dim, group, assumptions))
          return group;
      return std::nullopt;
    }
    return 0;
  }

  /// A float of constants that are all zero.
  static bool isZero(Value value) {
    return matchPattern(value, m_AnyZeroFloat()) || findReadOfZeros(value);
  }

  /// The value that the outermost op changes; the change becomes a step. Null: there is none.
  Value stripStep(Value value, SmallWeights &weights) {
    Operation *op = value.getDefiningOp();
    // Sums are f32: what is rounded in between need not be.
    if (isa_and_nonnull<arith::ExtFOp, arith::TruncFOp>(op))
      return op->getOperand(0);
    if (!isa_and_nonnull<arith::MulFOp, arith::AddFOp, arith::SubFOp>(op))
      return {};
    auto kind = isa<arith::MulFOp>(op)   ? SmallWeights::Step::Multiply
                : isa<arith::AddFOp>(op) ? SmallWeights::Step::Add
                                         : SmallWeights::Step::Subtract;
    for (unsigned side : {1, 0}) {
      std::optional<int64_t> group = groupOf(op->getOperand(side));
      if (!group || (side == 0 && kind == SmallWeights::Step::Subtract))
        continue;
      if (kind != SmallWeights::Step::Multiply && isZero(op->getOperand(side))) {
        weights.zeros.push_back(op->getOperand(side));
      } else {
        weights.steps.push_back({kind, op->getOperand(side)});
        weights.group = std::gcd(weights.group, *group);
      }
      return op->getOperand(1 - side);
    }
    return {};
  }

  ContractOp contract;
  SmallVector<sym::Expr> extents;
  unsigned firstK;
  sym::Assumptions assumptions;
};

} // namespace

std::optional<SmallWeights> SmallWeights::get(ContractOp contract, const char *&reason) {
  std::optional<SmallWeights> weights = Parser(contract).parse(reason);
  if (!weights)
    return std::nullopt;
  // Groups are made of the steps of one dim.
  SmallVector<int64_t> sums;
  for (sym::Expr size : contract.getK().getSizes())
    if (!size.isConstant(1))
      sums.push_back(size.constant().value_or(0));
  bool inGroups = weights->group != 0 || weights->hasOffset();
  if (inGroups && (sums.size() != 1 || sums[0] <= 0 || weights->group % fewestSteps != 0)) {
    reason = "its scales or zero points change in ways that are not kept apart";
    return std::nullopt;
  }
  return weights;
}

std::optional<int64_t> SmallWeights::getBias() const {
  // Few of eight bits are used by chance, or by weights that are replaced later.
  if (most - least < 13 && std::max(-least, most) < 7)
    return std::nullopt;
  if (least >= -8 && most <= 7)
    return 0;
  return most - least <= 15 ? std::optional(least + 8) : std::nullopt;
}

bool SmallWeights::hasOffset() const {
  return llvm::any_of(steps, [](const Step &step) { return step.kind != Step::Multiply; });
}

bool SmallWeights::subtractsFirst() const {
  bool isScaled = false;
  for (const Step &step : steps) {
    if (isScaled && step.kind != Step::Multiply)
      return false;
    isScaled |= step.kind == Step::Multiply;
  }
  return true;
}

Type SmallWeights::getScaleType() const {
  Value scale;
  for (const Step &step : steps)
    if (step.kind == Step::Multiply) {
      if (scale)
        return Float32Type::get(scale.getContext());
      scale = step.value;
    }
  if (!scale)
    return Float32Type::get(bits.getContext());
  if (auto extension = scale.getDefiningOp<arith::ExtFOp>())
    scale = extension.getIn();
  return scale.getType();
}

std::pair<Value, Value> SmallWeights::createParameters(OpBuilder &builder, Location loc,
                                                       const IRMapping &mapping,
                                                       int64_t bias) const {
  Value scale, offset;
  Type type = builder.getF32Type();
  bool isZero = subtractsFirst();
  if (bias != 0)
    offset = arith::ConstantOp::create(
        builder, loc, builder.getFloatAttr(type, static_cast<double>(isZero ? -bias : bias)));
  for (const Step &step : steps) {
    Value value = mapping.lookup(step.value);
    if (value.getType() != type)
      value = arith::ExtFOp::create(builder, loc, type, value);
    if (step.kind == Step::Multiply) {
      scale = scale ? arith::MulFOp::create(builder, loc, scale, value).getResult() : value;
      if (offset && !isZero)
        offset = arith::MulFOp::create(builder, loc, offset, value);
      continue;
    }
    if (!offset)
      offset = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
    offset = (step.kind == Step::Add) != isZero
                 ? arith::AddFOp::create(builder, loc, offset, value).getResult()
                 : arith::SubFOp::create(builder, loc, offset, value).getResult();
  }
  return {scale, offset};
}

//===-- Pairs of bf16 ------------------------------------------------------------------------===//

bool cpu::hasFewRows(ContractOp contract) {
  return sym::product(contract.getM().getSizes()).constant().value_or(fewestManyRows) <
         fewestManyRows;
}

bool cpu::multipliesInPairs(ContractOp contract, const SmallWeights &weights,
                            const codegen::CPUInfo &target) {
  constexpr int64_t fewestColumns = 16;
  int64_t lanes = target.lanes(Float32Type::get(contract.getContext()));
  if (!multipliesPairs(target, lanes) || !sumsPairs(contract) ||
      sym::product(contract.getN().getSizes()).constant().value_or(fewestColumns) < fewestColumns)
    return false;
  return !hasFewRows(contract) ||
         (weights.getBias() == 0 && weights.group != 0 && !weights.hasOffset() && lanes == 16);
}

bool cpu::multipliesDigits(ContractOp contract, const codegen::CPUInfo &target) {
  const char *reason;
  int64_t most = maxBlockFloatRows(target, target.lanes(Float32Type::get(contract.getContext())));
  if (sym::product(contract.getM().getSizes()).constant().value_or(most + 1) > most)
    return false;
  std::optional<SmallWeights> weights = SmallWeights::get(contract, reason);
  return weights && weights->getBias() && weights->group != 0 &&
         weights->group % blockFloatSteps == 0;
}

//===-- Packed operands ----------------------------------------------------------------------===//

/// The read with which `value`'s op combines another value, which takes its place; null: none. What is read may be widened.
template <typename OpType> static ReadOp stripRead(Value &value) {
  auto op = value.getDefiningOp<OpType>();
  if (!op)
    return {};
  for (unsigned side : {1, 0}) {
    Value other = op->getOperand(side);
    if (auto extension = other.getDefiningOp<arith::ExtFOp>())
      other = extension.getIn();
    if (auto read = other.getDefiningOp<ReadOp>()) {
      value = op->getOperand(1 - side);
      return read;
    }
  }
  return {};
}

/// The word of whose bf16 `value` is that for step `dim`; null: it is none.
static ReadOp getPair(Value value, sym::Expr dim) {
  auto bits = value.getDefiningOp<arith::BitcastOp>();
  auto half = bits ? bits.getIn().getDefiningOp<arith::TruncIOp>() : arith::TruncIOp();
  auto down = half ? half.getIn().getDefiningOp<arith::ShRUIOp>() : arith::ShRUIOp();
  auto narrow = down ? down.getRhs().getDefiningOp<arith::TruncIOp>() : arith::TruncIOp();
  auto index = narrow ? narrow.getIn().getDefiningOp<IndexOp>() : IndexOp();
  if (!index || !value.getType().isBF16() || !half.getType().isInteger(16) ||
      index.getMap().getResults().front() != 16 * dim)
    return {};
  return down.getLhs().getDefiningOp<ReadOp>();
}

/// The word of which `value` is the four bits from bit `first` on; null: it is none.
static ReadOp getWord(Value value, sym::Expr first) {
  auto down = value.getDefiningOp<arith::ShRSIOp>();
  auto up = down ? down.getLhs().getDefiningOp<arith::ShLIOp>() : arith::ShLIOp();
  if (!up || !matchPattern(down.getRhs(), m_Constant()))
    return {};
  auto narrow = up.getRhs().getDefiningOp<arith::TruncIOp>();
  auto index = narrow ? narrow.getIn().getDefiningOp<IndexOp>() : IndexOp();
  int64_t top = 32 - smallBits;
  APInt by;
  if (!index || index.getMap().getResults().front() != top - first ||
      !matchPattern(down.getRhs(), m_ConstantInt(&by)) || by != top)
    return {};
  return up.getLhs().getDefiningOp<ReadOp>();
}

std::optional<PackedSmallWeights> PackedSmallWeights::get(ContractOp contract) {
  PackedSmallWeights weights;
  Value value = contract.getRhs().front().getTerminator()->getOperand(0);
  ArrayRef<sym::Expr> k = contract.getK().getSizes();
  if (!contract.getPanel())
    return std::nullopt;
  if (!k.empty() && k.back().isConstant(pairSteps)) {
    weights.bits = getPair(value, sym::Expr::dim(contract.getExtents().size() - 1));
    weights.steps = pairSteps;
    if (weights.bits)
      return weights;
    weights.steps = 1;
  }
  if (auto rounding = value.getDefiningOp<arith::TruncFOp>()) {
    weights.inPairs = value.getType().isBF16();
    value = rounding.getIn();
  }
  if (!value.getType().isF32())
    return std::nullopt;
  weights.offset = stripRead<arith::AddFOp>(value);
  weights.scale = stripRead<arith::MulFOp>(value);
  if (auto difference = value.getDefiningOp<arith::SubFOp>(); difference && !weights.offset) {
    weights.offset = difference.getRhs().getDefiningOp<ReadOp>();
    if (!weights.offset)
      return std::nullopt;
    weights.subtractsFirst = true;
    value = difference.getLhs();
  }
  // Halves that are widened have no other parameters.
  if (auto extension = value.getDefiningOp<arith::ExtFOp>();
      extension && !weights.inPairs && !weights.scale && !weights.offset) {
    weights.bits = extension.getIn().getDefiningOp<ReadOp>();
    return weights.bits ? std::optional(weights) : std::nullopt;
  }
  Operation *conversion = value.getDefiningOp();
  if (!isa_and_nonnull<arith::SIToFPOp, arith::UIToFPOp>(conversion) ||
      (weights.offset && !weights.scale))
    return std::nullopt;
  weights.isUnsigned = isa<arith::UIToFPOp>(conversion);
  value = conversion->getOperand(0);
  weights.bits = value.getDefiningOp<ReadOp>();
  if (weights.bits)
    return weights.bits.getType().isInteger(8) ? std::optional(weights) : std::nullopt;
  if (k.empty() || weights.isUnsigned)
    return std::nullopt;
  sym::Expr last = sym::Expr::dim(contract.getExtents().size() - 1);
  weights.steps = wordSteps;
  if (k.back().isConstant(wordSteps)) {
    weights.bits = getWord(value, weights.inPairs ? firstPairBit(last) : smallBits * last);
    return weights.bits ? std::optional(weights) : std::nullopt;
  }
  std::optional<GroupedBytes> left = GroupedBytes::get(contract);
  if (!left || k.size() != 4 || !k[2].isConstant(wordHalves) || weights.offset || !weights.scale)
    return std::nullopt;
  sym::Expr half = sym::Expr::dim(contract.getExtents().size() - 2);
  weights.bits = getWord(value, smallBits * half + 8 * last);
  weights.left = left->words;
  return weights.bits ? std::optional(weights) : std::nullopt;
}
