// Finds the windows that a product's left operand is read through.
#include "kiln/Targets/CPU/ContractLayout.h"
#include <numeric>

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

/// Largest stride or dilation of a window.
static constexpr int64_t maxStep = 4096;

/// x and y with x*a + y*b == 1, for coprime a, b > 0. With a stride or dilation of one, the other
/// dim is bound to 0.
static std::pair<int64_t, int64_t> bezout(int64_t a, int64_t b) {
  if (b == 1)
    return {0, 1};
  if (a == 1)
    return {1, 0};
  int64_t x = 1;
  while ((x * a - 1) % b != 0)
    ++x;
  return {x, (1 - x * a) / b};
}

namespace {

/// Finds out which m and k dims make a window, and its stride and dilation.
class WindowFinder {
public:
  explicit WindowFinder(kernel::ContractOp op)
      : firstM(op.getNumBatch()), firstN(firstM + op.getNumM()), firstK(firstN + op.getNumN()),
        end(firstK + op.getNumK()), rowOf(op.getNumK()) {
    windows.resize(op.getNumM());
  }

  SmallVector<std::optional<StageAxis>> windows;

  /// Fails if some dim occurs in two ways. An expression with more than one window, such as the
  /// element of an image whose height and width are one dim, has those that others tell of; where
  /// there are none, the larger of its coefficients belong together.
  bool find(ArrayRef<Access> accesses) {
    SmallVector<sym::Expr> several;
    for (const Access &access : accesses) {
      SmallVector<unsigned> rows = dimsOf(access.expr, firstM, firstN);
      SmallVector<unsigned> sums = dimsOf(access.expr, firstK, end);
      if (rows.empty() || sums.empty())
        continue;
      if (rows.size() != sums.size())
        return false;
      if (rows.size() > 1)
        several.push_back(access.expr);
      else if (!add(access.expr, rows.front(), sums.front()))
        return false;
    }
    return llvm::all_of(several, [&](sym::Expr expr) { return addAll(expr); });
  }

private:
  static SmallVector<unsigned> dimsOf(sym::Expr expr, unsigned begin, unsigned end) {
    SmallVector<unsigned> dims;
    for (unsigned i = begin; i < end; ++i)
      if (expr.dependsOn(sym::Expr::dim(i)))
        dims.push_back(i);
    return dims;
  }

  /// The constant that `expr` has dim `i` times; 0 if there is none.
  static int64_t coefficientOf(sym::Expr expr, unsigned i) {
    std::optional<sym::Linear> linear = sym::splitLinear(expr, sym::Expr::dim(i));
    return linear ? linear->coefficient.constant().value_or(0) : 0;
  }

  bool addAll(sym::Expr expr) {
    SmallVector<unsigned> rows, sums = dimsOf(expr, firstK, end);
    for (unsigned row : dimsOf(expr, firstM, firstN)) {
      const std::optional<StageAxis> &known = windows[row - firstM];
      if (!known) {
        rows.push_back(row);
        continue;
      }
      if (!llvm::is_contained(sums, *known->sumDim) || !add(expr, row, *known->sumDim))
        return false;
      llvm::erase(sums, *known->sumDim);
    }
    auto byCoefficient = [&](unsigned a, unsigned b) {
      int64_t x = coefficientOf(expr, a), y = coefficientOf(expr, b);
      return x != y ? x > y : a < b;
    };
    llvm::sort(rows, byCoefficient);
    llvm::sort(sums, byCoefficient);
    return llvm::all_of(llvm::zip(rows, sums),
                        [&](auto pair) { return add(expr, std::get<0>(pair), std::get<1>(pair)); });
  }

  bool add(sym::Expr expr, unsigned i, unsigned j) {
    int64_t s = coefficientOf(expr, i), d = coefficientOf(expr, j);
    if (s <= 0 || d <= 0 || s / std::gcd(s, d) > maxStep || d / std::gcd(s, d) > maxStep)
      return false;
    StageAxis axis;
    axis.rowDim = i;
    axis.sumDim = j;
    axis.rowStep = s / std::gcd(s, d);
    axis.sumStep = d / std::gcd(s, d);
    std::tie(axis.rowBind, axis.sumBind) = bezout(axis.rowStep, axis.sumStep);
    std::optional<StageAxis> &known = windows[i - firstM];
    std::optional<unsigned> &row = rowOf[j - firstK];
    if ((known && (known->sumDim != axis.sumDim || known->rowStep != axis.rowStep ||
                   known->sumStep != axis.sumStep)) ||
        (row && *row != i))
      return false;
    known = axis;
    row = i;
    return true;
  }

  unsigned firstM, firstN, firstK, end;
  SmallVector<std::optional<unsigned>> rowOf;
};

} // namespace

std::optional<SmallVector<std::optional<StageAxis>>> cpu::findWindows(kernel::ContractOp op) {
  SmallVector<Access> accesses;
  op.getLhs().walk([&](Operation *inner) {
    auto map = kernel::getIndexMap(inner);
    for (sym::Expr result : map ? map.getResults() : ArrayRef<sym::Expr>())
      accesses.push_back({inner, false, result});
  });
  WindowFinder finder(op);
  if (!finder.find(accesses))
    return std::nullopt;
  SmallVector<std::optional<StageAxis>> windows = std::move(finder.windows);
  // A window's dims never occur one without the other.
  for (const Access &access : accesses)
    for (const std::optional<StageAxis> &axis : windows)
      if (axis && access.expr.dependsOn(sym::Expr::dim(*axis->rowDim)) !=
                      access.expr.dependsOn(sym::Expr::dim(*axis->sumDim)))
        return std::nullopt;
  return windows;
}
