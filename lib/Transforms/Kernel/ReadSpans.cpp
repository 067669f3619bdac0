// Turns reads of a tensor at constant offsets into reads of a span of it that begins there.
//
// A step of an unrolled recurrence reads x[d0, 41, d1] of a tensor<4x50x64>. In the order of memory
// that is element 3200*d0 + 2624 + d1. The span begins at element 2624 and has the 9664 elements up
// to the last one read, and the kernel reads element 3200*d0 + d1 of it, as all other steps do:
//
//     x   |........|........|#.......|........|#.......|..     #: what the kernel reads
//                           |<------- span ---->|
//
// Spans begin at multiples of a cache line, so that addresses are aligned as those of tensors are;
// the rest of an offset stays in the kernel.
#include "ReadSpans.h"
#include "kiln/Dialect/Kernel/Constants.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// Bytes.
static constexpr int64_t spanAlignment = 64;

/// The smallest step along a dim of this stride, in bytes, whose multiples are aligned; 0 if none
/// is known.
static int64_t getAlignedStep(sym::Expr stride, const sym::Assumptions &assumptions) {
  for (int64_t step = 1; step <= spanAlignment; step *= 2)
    if (assumptions.isMultipleOf(step * stride, spanAlignment))
      return step;
  return 0;
}

/// The constant in a sum, and in anything else but a constant 0.
static int64_t getConstantTerm(sym::Expr expr) {
  if (auto value = expr.constant())
    return *value;
  if (expr.kind() != sym::Kind::Add)
    return 0;
  for (sym::Expr term : expr.operands())
    if (auto value = term.constant())
      return *value;
  return 0;
}

/// An upper bound of `place`, an expression over the dims of `region`, that is reached if there are
/// no masks; null if there is none.
static std::optional<sym::Expr> getLast(sym::Expr place, Region *region,
                                        const sym::Assumptions &assumptions) {
  sym::Expr last = place;
  for (auto [i, extent] : llvm::enumerate(getDimExtents(region))) {
    auto linear = sym::splitLinear(last, sym::Expr::dim(i));
    bool isIncreasing = linear && !extent.hasDims() && !linear->coefficient.hasDims() &&
                        assumptions.isNonNegative(linear->coefficient) &&
                        assumptions.isPositive(extent);
    if (isIncreasing) {
      last = linear->coefficient * (extent - 1) + linear->rest;
      continue;
    }
    // Quotients of dims, for which there are numbers at best.
    sym::Range range = assumptions.rangeOf(place);
    return range.max ? std::optional<sym::Expr>(*range.max) : std::nullopt;
  }
  return assumptions.simplify(last);
}

namespace {
/// The reads of one argument.
struct Reads {
  explicit Reads(Value tensor)
      : type(cast<RankedTensorType>(tensor.getType())), shape(sym::getShape(type)),
        strides(sym::rowMajorStrides(shape)) {}

  bool add(Operation *user) {
    auto read = dyn_cast<ReadOp>(user);
    if (!read || !read.getValues().empty())
      return false;
    // Panels are read by their dims.
    auto contract = dyn_cast<ContractOp>(read->getParentOp());
    if (contract && contract.getPanel() && read->getParentRegion() == &contract.getRhs())
      return false;
    reads.push_back(read);
    return true;
  }

  /// The aligned place in front of all that is read.
  sym::Expr getFirst(const sym::Assumptions &assumptions) const {
    int64_t bytes = getElementBytes(type.getElementType());
    sym::Expr first = 0;
    for (auto [i, stride] : llvm::enumerate(strides)) {
      int64_t least = INT64_MAX;
      for (ReadOp read : reads)
        least = std::min(least, getConstantTerm(read.getMap().getResults()[i]));
      int64_t step = least > 0 ? getAlignedStep(bytes * stride, assumptions) : 0;
      if (step)
        first = first + (least - least % step) * stride;
    }
    return first;
  }

  RankedTensorType type;
  SmallVector<sym::Expr> shape, strides;
  SmallVector<ReadOp> reads;
};
} // namespace

/// Makes a span of argument `number`, if it is one; its first element.
static std::optional<sym::Expr> readSpan(FuncOp func, unsigned number) {
  BlockArgument argument = func.getArgument(number);
  Reads all(argument);
  if (argument.use_empty() || all.shape.empty() ||
      !llvm::all_of(argument.getUsers(), [&](auto *user) { return all.add(user); }))
    return std::nullopt;
  std::optional<sym::Expr> first;
  sym::Expr size = 0;
  SmallVector<sym::Expr> places;
  sym::Assumptions assumptions;
  for (ReadOp read : all.reads) {
    assumptions = getAssumptions(read->getParentRegion());
    if (!first)
      first = all.getFirst(assumptions);
    places.push_back(
        assumptions.simplify(sym::linearize(read.getMap().getResults(), all.shape) - *first));
    auto last = getLast(places.back(), read->getParentRegion(), assumptions);
    if (!last || !assumptions.isNonNegative(*last))
      return std::nullopt;
    size = sym::Expr::max(size, *last + 1);
  }
  size = assumptions.simplify(size);
  sym::Expr whole = sym::product(all.shape);
  // Masked reads have bounds past the end. Sizes that may be 0 have no place to begin at.
  if (size.hasDims() || assumptions.isEqual(size, whole) ||
      !assumptions.isLessOrEqual(*first + size, whole))
    return std::nullopt;

  MLIRContext *context = func.getContext();
  argument.setType(sym::getTensorType(size, all.type.getElementType()));
  for (auto [read, place] : llvm::zip_equal(all.reads, places))
    read.setMapAttr(sym::MapAttr::get(context, sym::IndexMap{read.getMap().getNumDims(), {place}}));
  return first;
}

SmallVector<sym::ExprAttr> kernel::readSpans(FuncOp func) {
  SmallVector<sym::ExprAttr> firsts(func.getNumArguments());
  for (auto [i, first] : llvm::enumerate(firsts))
    if (std::optional<sym::Expr> found = readSpan(func, i))
      first = sym::ExprAttr::get(func.getContext(), *found);
  Block &body = func.getBody().front();
  func.setFunctionType(
      FunctionType::get(func.getContext(), body.getArgumentTypes(), func.getResultTypes()));
  return firsts;
}
