// Bounds of small integers, from what makes them: a quantizer clamps to its bounds before it converts.
#include "CPU/Contract/ByteRange.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseMap.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

/// From `low` to `high`. Integers of 8 bits have no signs, wider ones have. NaN is within all bounds, and so is
/// what it is converted to, an integer with low bits of zero.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity(),
         high = std::numeric_limits<double>::infinity();

  Bounds unite(Bounds other) const {
    return {std::min(low, other.low), std::max(high, other.high)};
  }
  bool isWithin(double least, double most) const { return least <= low && high <= most; }
};

class BoundsOfValues {
public:
  /// The bounds of a scalar or of a tensor's elements.
  Bounds get(Value value) {
    auto [place, isNew] = known.try_emplace(value);
    if (!isNew || depth == mostDepth)
      return place->second;
    ++depth;
    Bounds bounds = isa<RankedTensorType>(value.getType()) ? findTensor(value) : findScalar(value);
    --depth;
    return known[value] = bounds;
  }

private:
  Bounds findTensor(Value tensor) {
    if (auto map = tensor.getDefiningOp<MapOp>())
      return getYielded(map.getBody(), cast<OpResult>(tensor).getResultNumber());
    if (auto contract = tensor.getDefiningOp<ContractOp>())
      return getYielded(contract.getEpilogue(), 0);
    return {};
  }

  Bounds getYielded(Region &region, unsigned number) {
    return get(region.front().getTerminator()->getOperand(number));
  }

  Bounds findScalar(Value value) {
    if (FloatAttr number; matchPattern(value, m_Constant(&number))) {
      double x = number.getValueAsDouble();
      return std::isnan(x) ? Bounds() : Bounds{x, x};
    }
    bool isByte = value.getType().isInteger(8);
    if (IntegerAttr number; matchPattern(value, m_Constant(&number))) {
      auto x = static_cast<double>(isByte ? number.getValue().getZExtValue()
                                          : number.getValue().getSExtValue());
      return {x, x};
    }
    Operation *op = value.getDefiningOp();
    if (!op)
      return {};
    if (isMaximum(op)) {
      Bounds a = get(op->getOperand(0)), b = get(op->getOperand(1));
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    }
    if (isMinimum(op)) {
      Bounds a = get(op->getOperand(0)), b = get(op->getOperand(1));
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    }
    if (auto select = dyn_cast<arith::SelectOp>(op))
      return get(select.getTrueValue()).unite(get(select.getFalseValue()));
    if (auto convert = dyn_cast<arith::FPToSIOp>(op); convert && value.getType().isInteger(32)) {
      Bounds bounds = get(convert.getIn());
      return bounds.isWithin(-0x1p31, 0x1p31 - 1)
                 ? Bounds{std::trunc(bounds.low), std::trunc(bounds.high)}
                 : Bounds();
    }
    if (auto narrow = dyn_cast<arith::TruncIOp>(op); narrow && isByte) {
      Bounds bounds = get(narrow.getIn());
      return bounds.isWithin(0, 255) ? bounds : Bounds();
    }
    if (auto extend = dyn_cast<arith::ExtUIOp>(op); extend && extend.getIn().getType().isInteger(8))
      return get(extend.getIn());
    if (auto read = dyn_cast<ReadOp>(op); read && read.getValues().empty()) {
      Bounds bounds = get(read.getTensor());
      return read.getMask() ? bounds.unite(get(read.getOther())) : bounds;
    }
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && reduce->getNumResults() == 1) {
      Block &combine = reduce.getCombine().front();
      Operation *last = combine.getTerminator()->getOperand(0).getDefiningOp();
      if (last && llvm::hasNItems(combine, 2) && (isMaximum(last) || isMinimum(last)))
        return get(reduce.getInit().front()).unite(getYielded(reduce.getBody(), 0));
    }
    return {};
  }

  /// One of three operations: on floats, on integers of 8 bits, which have no signs, or on wider ones.
  template <typename FloatOp, typename ByteOp, typename IntegerOp>
  static bool isAny(Operation *op) {
    bool isByte = op->getResultTypes().front().isInteger(8);
    return isa<FloatOp>(op) || (isByte ? isa<ByteOp>(op) : isa<IntegerOp>(op));
  }
  static bool isMaximum(Operation *op) {
    return isAny<arith::MaximumFOp, arith::MaxUIOp, arith::MaxSIOp>(op);
  }
  static bool isMinimum(Operation *op) {
    return isAny<arith::MinimumFOp, arith::MinUIOp, arith::MinSIOp>(op);
  }

  static constexpr unsigned mostDepth = 256; // of the stack
  unsigned depth = 0;
  llvm::DenseMap<Value, Bounds> known;
};

} // namespace

int64_t cpu::getLargestByte(Value tensor) {
  Bounds bounds = BoundsOfValues().get(tensor);
  return bounds.isWithin(0, 255) ? static_cast<int64_t>(bounds.high) : 255;
}
