// Finds the inside of windowed reductions; see WindowPlan.
#include "CPU/Map/MapPlan.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {
struct Extremes {
  sym::Expr first, last;
};
} // namespace

/// The values of `expr` over the dims of `reduce`; none if it is not linear in them with known
/// signs.
static std::optional<Extremes> extremes(sym::Expr expr, kernel::ReduceOp reduce) {
  unsigned end = kernel::getDimExtents(&reduce.getBody()).size();
  ArrayRef<sym::Expr> extents = reduce.getExtents().getSizes();
  Extremes result{expr, expr};
  for (auto [i, extent] : llvm::enumerate(extents)) {
    sym::Expr dim = sym::Expr::dim(end - extents.size() + i);
    std::optional<sym::Linear> linear = sym::splitLinear(result.first, dim);
    std::optional<sym::Linear> linearLast = sym::splitLinear(result.last, dim);
    if (!linear || !linearLast)
      return std::nullopt;
    std::optional<int64_t> coefficient = linear->coefficient.constant();
    if (!coefficient)
      return std::nullopt;
    sym::Expr reach = *coefficient * (extent - 1);
    result.first = linear->rest + (*coefficient < 0 ? reach : sym::Expr(0));
    result.last = linearLast->rest + (*coefficient > 0 ? reach : sym::Expr(0));
  }
  return result;
}

std::optional<WindowPlan> cpu::makeWindowPlan(kernel::MapOp map, const DimGroup &columns,
                                              const DimGroup &loop, const CPUInfo &target,
                                              std::optional<int64_t> steps) {
  if (loop.count != 1)
    return std::nullopt;
  auto dependsOnColumns = [&](sym::Expr expr) {
    for (unsigned i = 0; i < columns.count; ++i)
      if (expr.dependsOn(sym::Expr::dim(columns.first + i)))
        return true;
    return false;
  };
  WindowPlan plan;
  plan.high = loop.extent;
  sym::Expr step = loop.lastDim();
  bool found = false;
  for (auto reduce : map.getBody().getOps<kernel::ReduceOp>()) {
    std::optional<int64_t> taps = sym::product(reduce.getExtents().getSizes()).constant();
    if (!taps || *taps > maxUnrolledReduction)
      return std::nullopt;
    found = true;
    for (auto inside : reduce.getBody().getOps<kernel::InsideOp>()) {
      if (!inside.getValues().empty())
        return std::nullopt;
      for (auto [i, expr, bound] :
           llvm::enumerate(inside.getMap().getResults(), inside.getBounds().getSizes())) {
        if (dependsOnColumns(expr))
          continue;
        plan.insides.push_back({inside, i});
        std::optional<Extremes> range = extremes(expr, reduce);
        if (!range)
          return std::nullopt;
        std::optional<sym::Linear> first = sym::splitLinear(range->first, step);
        std::optional<sym::Linear> last = sym::splitLinear(range->last, step);
        if (!first || !last)
          return std::nullopt;
        if (first->coefficient.isConstant(0)) {
          plan.tests.push_back({range->first, range->last, bound});
          continue;
        }
        // 0 <= stride*step + first and stride*step + last < bound.
        std::optional<int64_t> stride = first->coefficient.constant(),
                               from = first->rest.constant();
        if (!stride || !from || last->rest.hasDims() || *stride <= 0)
          return std::nullopt;
        plan.low = std::max(plan.low, llvm::divideCeilSigned(-*from, *stride));
        plan.high = sym::Expr::min(plan.high, (bound - 1 - last->rest).floorDiv(*stride) + 1);
      }
    }
  }
  sym::Expr inside = plan.high - plan.low;
  std::optional<int64_t> constant = inside.constant();
  // Enough to share reads and to hide the latency of the sums; half as many more if these are all.
  int64_t together = target.fmaLatency;
  plan.steps = steps ? *steps : constant && *constant <= 3 * together / 2 ? *constant : together;
  if (!found || plan.steps < 2)
    return std::nullopt;
  // A rest counts as outside: no element may be computed twice, since its operands may be
  // overwritten by it.
  plan.high = plan.low + sym::Expr::max(inside, 0).floorDiv(plan.steps) * plan.steps;
  return plan;
}
