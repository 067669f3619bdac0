// Turns constants in the body of a kernel into reads of arguments.
//
// Quantized layers differ in their scales and zero points alone. With those in a small tensor, which
// each call has its own of, one kernel serves all layers:
//
//     %s = arith.constant 0.033 : f32        %s = kernel.read %scalars (d0, d1) -> (0)
//
// Numbers that decide how code is generated (exponents, divisors, what reductions begin with) stay.
#include "ReadScalars.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// An op that takes as long with a number from memory as with a constant.
static bool isIndifferent(Operation *user) {
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp,
             arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::MaxSIOp, arith::MinSIOp>(user);
}

/// The number that `op` is: a constant, or one that is rounded, as scales of quantization are.
static TypedAttr getNumber(Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return constant.getValue();
  auto rounded = dyn_cast<arith::TruncFOp>(op);
  FloatAttr wide;
  if (!rounded || rounded.getRoundingmode() || !rounded.getType().isF32() ||
      !matchPattern(rounded.getIn(), m_Constant(&wide)))
    return {};
  return FloatAttr::get(rounded.getType(), wide.getValueAsDouble());
}

void kernel::separateConstants(FuncOp func) {
  SmallVector<std::pair<Operation *, TypedAttr>> numbers;
  func.walk([&](Operation *op) {
    if (TypedAttr number = getNumber(op))
      numbers.push_back({op, number});
  });
  // In reverse: a rounded number comes after what it is rounded from.
  for (auto &[op, number] : llvm::reverse(numbers)) {
    for (OpOperand &use : llvm::make_early_inc_range(op->getUses())) {
      OpBuilder builder(use.getOwner());
      use.set(arith::ConstantOp::create(builder, op->getLoc(), number));
    }
    op->erase();
  }
}

SmallVector<arith::ConstantOp> kernel::findScalars(FuncOp func) {
  SmallVector<arith::ConstantOp> scalars;
  func.walk([&](arith::ConstantOp constant) {
    bool isNumber = constant.getType().isF32() || constant.getType().isSignlessInteger(32);
    if (isNumber && llvm::all_of(constant->getUsers(), isIndifferent))
      scalars.push_back(constant);
  });
  return scalars;
}

void kernel::clearScalars(FuncOp func) {
  Builder builder(func.getContext());
  for (arith::ConstantOp scalar : findScalars(func))
    scalar.setValueAttr(builder.getZeroAttr(scalar.getType()));
}

SmallVector<SmallVector<unsigned>> kernel::findDifferences(ArrayRef<FuncOp> kernels) {
  FuncOp first = kernels.front();
  // The values of each scalar in all kernels.
  SmallVector<SmallVector<Attribute>> values(findScalars(first).size());
  for (FuncOp func : kernels)
    for (auto [of, scalar] : llvm::zip_equal(values, findScalars(func)))
      of.push_back(scalar.getValue());
  llvm::MapVector<Attribute, SmallVector<unsigned>> groups;
  for (auto [i, of] : llvm::enumerate(values))
    if (!llvm::all_equal(of))
      groups[ArrayAttr::get(first.getContext(), of)].push_back(i);
  return llvm::map_to_vector(groups, [](auto &group) { return std::move(group.second); });
}

/// The scalars of each group: the groups of floats, and those of integers.
static auto select(FuncOp func, ArrayRef<SmallVector<unsigned>> groups) {
  SmallVector<arith::ConstantOp> scalars = findScalars(func);
  SmallVector<SmallVector<SmallVector<arith::ConstantOp>>> selected(2);
  for (ArrayRef<unsigned> group : groups) {
    auto some = llvm::map_to_vector(group, [&](unsigned i) { return scalars[i]; });
    selected[isa<FloatType>(some.front().getType()) ? 0 : 1].push_back(std::move(some));
  }
  llvm::erase_if(selected, [](const auto &some) { return some.empty(); });
  return selected;
}

static RankedTensorType getTensorType(ArrayRef<SmallVector<arith::ConstantOp>> groups) {
  arith::ConstantOp first = groups.front().front();
  return RankedTensorType::get(static_cast<int64_t>(groups.size()), first.getType());
}

/// Reads element `number` once in each region that has some of `scalars`.
static void readElement(Value tensor, int64_t number, ArrayRef<arith::ConstantOp> scalars) {
  llvm::SmallDenseMap<Region *, Value> reads;
  for (arith::ConstantOp scalar : scalars) {
    Region *region = scalar->getParentRegion();
    Value &read = reads[region];
    if (!read) {
      OpBuilder builder = OpBuilder::atBlockBegin(&region->front());
      sym::IndexMap map{static_cast<unsigned>(getDimExtents(region).size()), {number}};
      read = ReadOp::create(builder, scalar.getLoc(), tensor, map).getResult();
    }
    scalar.replaceAllUsesWith(read);
    scalar.erase();
  }
}

void kernel::readScalars(FuncOp func, ArrayRef<SmallVector<unsigned>> groups) {
  Block &body = func.getBody().front();
  for (const auto &some : select(func, groups)) {
    Value argument = body.addArgument(getTensorType(some), func.getLoc());
    for (auto [i, scalars] : llvm::enumerate(some))
      readElement(argument, static_cast<int64_t>(i), scalars);
  }
  func.setFunctionType(
      FunctionType::get(func.getContext(), body.getArgumentTypes(), func.getResultTypes()));
}

SmallVector<DenseElementsAttr> kernel::getScalars(FuncOp func,
                                                  ArrayRef<SmallVector<unsigned>> groups) {
  return llvm::map_to_vector(select(func, groups), [](const auto &some) {
    SmallVector<Attribute> values;
    for (const auto &group : some)
      values.push_back(arith::ConstantOp(group.front()).getValue());
    return DenseElementsAttr::get(getTensorType(some), values);
  });
}
