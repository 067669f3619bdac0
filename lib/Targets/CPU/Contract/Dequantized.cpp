// Operands of contracts that are dequantized small integers.
#include "CPU/Contract/Dequantized.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::cpu;
using sym::Expr;

/// A value without the rounding to narrower types in between: sums are f32.
static Value stripRounding(Value value) {
  while (isa_and_nonnull<arith::ExtFOp, arith::TruncFOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// Strips a conversion of an integer to a float; null for other values.
static Value stripConversion(Value value, bool &isUnsigned) {
  value = stripRounding(value);
  isUnsigned = value.getDefiningOp<arith::UIToFPOp>() != nullptr;
  if (auto op = value.getDefiningOp<arith::SIToFPOp>())
    return op.getIn();
  if (auto op = value.getDefiningOp<arith::UIToFPOp>())
    return op.getIn();
  return {};
}

/// `value` is 8 bits that are read, extended.
static bool parseBits(Value value, bool isUnsigned, Dequantized &result) {
  if (auto extension = value.getDefiningOp<arith::ExtSIOp>()) {
    value = extension.getIn();
    isUnsigned = false;
  } else if (auto extension = value.getDefiningOp<arith::ExtUIOp>()) {
    value = extension.getIn();
    isUnsigned = true;
  }
  auto read = value.getDefiningOp<ReadOp>();
  if (!read || !value.getType().isInteger(8) || read.getMask() || !read.getValues().empty() ||
      read->getBlock() != &result.map.getBody().front())
    return false;
  result.bits = read;
  result.isUnsigned = isUnsigned;
  return true;
}

static bool parseZero(Value value, Dequantized &result) {
  FloatAttr number;
  if (matchPattern(value, m_Constant(&number))) {
    double zero = number.getValueAsDouble();
    result.zeroNumber = static_cast<int64_t>(zero);
    return std::abs(zero) <= 255 && static_cast<double>(result.zeroNumber) == zero;
  }
  result.zero = stripConversion(value, result.isZeroUnsigned);
  return result.zero != nullptr;
}

/// bits - zero, as a float or as an integer.
static bool parseDifference(Value value, Dequantized &result) {
  value = stripRounding(value);
  if (auto difference = value.getDefiningOp<arith::SubFOp>()) {
    if (!parseZero(difference.getRhs(), result))
      return false;
    value = difference.getLhs();
  }
  bool isUnsigned = false;
  if (Value integer = stripConversion(value, isUnsigned))
    value = integer;
  if (auto difference = value.getDefiningOp<arith::SubIOp>()) {
    if (result.zero)
      return false;
    result.zero = difference.getRhs();
    value = difference.getLhs();
  }
  return parseBits(value, isUnsigned, result);
}

std::optional<Dequantized> Dequantized::get(Region &region) {
  Dequantized result;
  result.read = region.front().getTerminator()->getOperand(0).getDefiningOp<ReadOp>();
  if (!result.read || !result.read.getValues().empty() ||
      result.read->getBlock() != &region.front())
    return std::nullopt;
  result.map = result.read.getTensor().getDefiningOp<MapOp>();
  if (!result.map || result.map->getNumResults() != 1)
    return std::nullopt;
  Value value = result.map.getBody().front().getTerminator()->getOperand(0);
  if (!value.getType().isF32() && !value.getType().isBF16() && !value.getType().isInteger(32))
    return std::nullopt;
  value = stripRounding(value);
  if (auto product = value.getDefiningOp<arith::MulFOp>()) {
    value = product.getLhs();
    result.scale = product.getRhs();
  }
  if (!parseDifference(value, result))
    return std::nullopt;
  sym::Assumptions assumptions = getAssumptions(&region);
  llvm::append_range(result.place, result.read.getMap().getResults());
  for (Expr expr : result.bits.getMap().getResults())
    result.index.push_back(assumptions.simplify(expr.substituteDims(result.place)));
  return result;
}

/// An integer as i32.
static Value widen(OpBuilder &builder, Location loc, Value value, bool isUnsigned) {
  Type i32 = builder.getI32Type();
  unsigned width = value.getType().getIntOrFloatBitWidth();
  if (width > 32)
    return arith::TruncIOp::create(builder, loc, i32, value);
  if (width == 32)
    return value;
  return isUnsigned ? arith::ExtUIOp::create(builder, loc, i32, value).getResult()
                    : arith::ExtSIOp::create(builder, loc, i32, value).getResult();
}

std::optional<unsigned> cpu::findPlainDim(ArrayRef<Expr> index, unsigned dim) {
  std::optional<unsigned> found;
  for (auto [i, expr] : llvm::enumerate(index)) {
    if (expr == Expr::dim(dim))
      found = found ? std::optional<unsigned>(index.size()) : i;
    else if (expr.dependsOn(Expr::dim(dim)))
      return std::nullopt;
  }
  return found && *found < index.size() ? found : std::nullopt;
}

bool cpu::dependsOnDims(ArrayRef<Expr> exprs, unsigned begin, unsigned end) {
  return llvm::any_of(exprs, [&](Expr expr) {
    for (unsigned dim = begin; dim < end; ++dim)
      if (expr.dependsOn(Expr::dim(dim)))
        return true;
    return false;
  });
}

bool Dequantized::areParametersFree(unsigned begin, unsigned end) const {
  Operation *own = ReadOp(bits);
  bool free = true;
  MapOp(map).getBody().walk([&](Operation *op) {
    auto access = getIndexMap(op);
    if (!access || op == own)
      return;
    SmallVector<Expr> index;
    for (Expr expr : access.getResults())
      index.push_back(expr.substituteDims(place));
    free &= isa<ReadOp>(op) && ReadOp(cast<ReadOp>(op)).getValues().empty() &&
            !dependsOnDims(index, begin, end);
  });
  return free && MapOp(map)
                         .getBody()
                         .walk([](ReduceOp) { return WalkResult::interrupt(); })
                         .wasInterrupted() == false;
}

IRMapping Dequantized::cloneAt(OpBuilder &builder, ArrayRef<Expr> at, unsigned numDims) const {
  IRMapping mapping;
  Location loc = ReadOp(bits).getLoc();
  mapping.map(ReadOp(bits).getResult(),
              arith::ConstantIntOp::create(builder, loc, builder.getI8Type(), 0).getResult());
  DimSubstitution substitution;
  substitution.sourceDims = at.size();
  substitution.targetDims = numDims;
  substitution.dims.assign(at.begin(), at.end());
  cloneBody(builder, MapOp(map).getBody().front(), substitution, mapping);
  return mapping;
}

std::pair<Value, Value> Dequantized::cloneParameters(OpBuilder &builder, ArrayRef<Expr> at,
                                                     unsigned numDims) const {
  IRMapping mapping = cloneAt(builder, at, numDims);
  auto get = [&](Value value) { return value ? mapping.lookup(value) : Value(); };
  Value none = get(zero);
  if (none)
    none = widen(builder, ReadOp(bits).getLoc(), none, isZeroUnsigned);
  return {get(scale), none};
}
