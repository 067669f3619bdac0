// Finds out that a fold only gives each element of a parameter another place, and which one.
//
//   result[d0, d1, d2] = operand[32*d0 + d2, d1]
//
// has row r, element e at d0 = r / 32, d1 = e, d2 = r % 32. In general each dim of the result is a
// digit of the row's number or of the element's number in its row: (number / divisor) % size.
#include "FoldLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

/// A dim of the result as a digit.
struct Digit {
  int64_t divisor, size, stride;
  bool isRow;
};

class LayoutFinder {
public:
  explicit LayoutFinder(ReadOp read, RankedTensorType result)
      : index(read.getMap().getResults()),
        operand(cast<RankedTensorType>(read.getTensor().getType())), result(result) {}

  SmallVector<int64_t> find() {
    SmallVector<Digit> digits;
    int64_t stride = 1;
    for (int64_t dim = result.getRank() - 1; dim >= 0; --dim) {
      int64_t size = result.getDimSize(dim);
      std::optional<int64_t> row = getFactor(index.take_front(), dim);
      std::optional<int64_t> element = getFactor(index.drop_front(), dim);
      if (!row || !element)
        return {};
      if (size != 1) {
        if ((*row > 0) == (*element > 0))
          return {};
        digits.push_back({*row > 0 ? *row : *element, size, stride, *row > 0});
      }
      stride *= size;
    }
    int64_t rows = operand.getDimSize(0);
    if (!isWhole(digits, true, rows) || !isWhole(digits, false, operand.getNumElements() / rows))
      return {};
    SmallVector<int64_t> numbers;
    for (const Digit &digit : digits)
      numbers.append({digit.divisor, digit.size, digit.stride, digit.isRow});
    return numbers;
  }

private:
  /// The factor of `dim` in the number that these last indices of the operand make up; nullopt:
  /// that is no sum of dims with factors.
  std::optional<int64_t> getFactor(ArrayRef<sym::Expr> indices, int64_t dim) const {
    std::optional<int64_t> first = evaluate(indices, dim, 1);
    if (!first || *first < 0 || evaluate(indices, dim, 0) != 0)
      return std::nullopt;
    if (!llvm::all_of(indices, [&](sym::Expr expr) { return isSumOrOfOneDim(expr); }))
      return std::nullopt;
    // A sum is enough to look at once, what has quotients of one dim at each of its values.
    bool isSum = llvm::all_of(indices, [&](sym::Expr expr) { return isSumOfDims(expr); });
    for (int64_t at = 2; !isSum && at < result.getDimSize(dim); ++at)
      if (evaluate(indices, dim, at) != at * *first)
        return std::nullopt;
    return first;
  }

  std::optional<int64_t> evaluate(ArrayRef<sym::Expr> indices, int64_t dim, int64_t at) const {
    int64_t number = 0;
    for (auto [i, expr] : llvm::enumerate(indices)) {
      std::optional<int64_t> value =
          expr.evaluate([&](sym::Expr leaf) { return leaf == sym::Expr::dim(dim) ? at : 0; });
      if (!value)
        return std::nullopt;
      number = number * operand.getDimSize(operand.getRank() - indices.size() + i) + *value;
    }
    return number;
  }

  bool isSumOrOfOneDim(sym::Expr expr) const {
    int64_t dims = 0;
    for (int64_t dim = 0; dim < result.getRank(); ++dim)
      dims += expr.dependsOn(sym::Expr::dim(dim));
    return dims <= 1 || isSumOfDims(expr);
  }

  bool isSumOfDims(sym::Expr expr) const {
    sym::Expr rest = expr;
    for (int64_t dim = 0; dim < result.getRank(); ++dim) {
      std::optional<sym::Linear> linear = sym::splitLinear(rest, sym::Expr::dim(dim));
      if (!linear || !linear->coefficient.constant())
        return false;
      rest = linear->rest;
    }
    return rest.isConstant(0);
  }

  /// Digits of all numbers below `count`, and no more than the most significant one can be.
  static bool isWhole(ArrayRef<Digit> all, bool isRow, int64_t count) {
    SmallVector<Digit> digits;
    llvm::copy_if(all, std::back_inserter(digits),
                  [&](const Digit &digit) { return digit.isRow == isRow; });
    llvm::sort(digits, [](const Digit &a, const Digit &b) { return a.divisor < b.divisor; });
    int64_t next = 1;
    for (const Digit &digit : digits) {
      if (digit.divisor != next)
        return false;
      next *= digit.size;
    }
    return next >= count;
  }

  ArrayRef<sym::Expr> index;
  RankedTensorType operand, result;
};

} // namespace

/// A mask that is true wherever the operand has an element.
static bool isPadding(Value mask, ReadOp read, RankedTensorType result) {
  if (!mask)
    return true;
  auto inside = mask.getDefiningOp<InsideOp>();
  if (!inside || !inside.getValues().empty())
    return false;
  ArrayRef<sym::Expr> index = read.getMap().getResults();
  auto type = cast<RankedTensorType>(read.getTensor().getType());
  auto simplify = [&](sym::Expr expr) {
    return expr.substitute([&](sym::Expr leaf) -> std::optional<sym::Expr> {
      for (int64_t dim = 0; dim < result.getRank(); ++dim)
        if (result.getDimSize(dim) == 1 && leaf == sym::Expr::dim(dim))
          return sym::Expr(0);
      return std::nullopt;
    });
  };
  ArrayRef<sym::Expr> bounds = inside.getBounds().getSizes();
  return llvm::all_of(llvm::enumerate(inside.getMap().getResults()), [&](auto test) {
    for (auto [dim, expr] : llvm::enumerate(index))
      if (simplify(expr) == simplify(test.value()) &&
          bounds[test.index()].isConstant(type.getDimSize(dim)))
        return true;
    return false;
  });
}

SmallVector<int64_t> host::getFoldLayout(FuncOp kernel) {
  auto map = dyn_cast<MapOp>(kernel.getBody().front().front());
  if (!map || map.getNumResults() != 1 || kernel.getArgumentTypes().size() != 1)
    return {};
  ReadOp read;
  for (Operation &op : map.getBody().front()) {
    auto other = dyn_cast<ReadOp>(op);
    if ((other && read) || !isa<ReadOp, InsideOp, YieldOp, arith::ConstantOp>(op))
      return {};
    read = other ? other : read;
  }
  auto result = cast<RankedTensorType>(map.getResult(0).getType());
  Operation *yield = map.getBody().front().getTerminator();
  if (!read || !read.getValues().empty() || yield->getOperand(0) != read.getResult() ||
      !result.hasStaticShape() || !isPadding(read.getMask(), read, result))
    return {};
  auto operand = cast<RankedTensorType>(read.getTensor().getType());
  if (operand.getElementType() != result.getElementType() || !operand.hasStaticShape() ||
      operand.getRank() == 0 || operand.getNumElements() == 0)
    return {};
  return LayoutFinder(read, result).find();
}
