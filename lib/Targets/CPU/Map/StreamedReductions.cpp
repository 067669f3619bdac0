// Finds reductions along a dim whose elements lie far apart, while the map's columns lie next to each other: sums of the rows of
// a matrix, maxima over the channels of an image.
#include "CPU/Map/MapPlan.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

static int64_t countBytes(Type type) {
  return llvm::divideCeilSigned(type.getIntOrFloatBitWidth(), 8);
}

/// Steps and columns are many, their elements are more than level 2 cache holds, and lie a multiple of a quarter page
/// apart, so that they share sets of the caches, or in more pages than those caches have lines for.
static bool isWorthStreaming(kernel::ReduceOp reduce, const DimGroup &columns, unsigned step,
                             const CPUInfo &target) {
  constexpr int64_t fewestColumns = 256, period = 1024, large = 12 << 20;
  int64_t count = estimate(columns.extent),
          steps = estimate(reduce.getExtents().getSizes().front());
  if (count < fewestColumns || steps < 2 * streamedReduceSteps)
    return false;
  for (const Access &access : collectAccesses(reduce.getBody())) {
    auto read = dyn_cast<kernel::ReadOp>(access.op);
    if (!read || !access.isOffset || classify(access.expr, columns.lastDim()) != Walk::Consecutive)
      continue;
    std::optional<sym::Linear> linear = sym::splitLinear(access.expr, sym::Expr::dim(step));
    std::optional<int64_t> stride = linear ? linear->coefficient.constant() : std::nullopt;
    int64_t bytes = countBytes(cast<RankedTensorType>(read.getTensor().getType()).getElementType());
    int64_t all = count * steps * bytes;
    bool sharesSets = stride && *stride != 0 && *stride * bytes % period == 0;
    if (all >= large || (sharesSets && all >= target.l2Bytes))
      return true;
  }
  return false;
}

SmallVector<StreamedReduction> cpu::findStreamedReductions(kernel::MapOp map, const MapPlan &plan) {
  SmallVector<StreamedReduction> streamed;
  if (!plan.columns || !plan.columnBlock || plan.turned || plan.window || !plan.inner.empty() ||
      !plan.reductions.empty() || plan.rowBlock != 1)
    return {};
  int64_t bytes = 0;
  for (auto reduce : map.getBody().front().getOps<kernel::ReduceOp>()) {
    if (reduce.getExtents().getSizes().size() != 1)
      return {};
    StreamedReduction &reduction = streamed.emplace_back(StreamedReduction{reduce, {}});
    for (Type type : reduce.getResultTypes()) {
      if (!type.isIntOrFloat() || type.isInteger(1))
        return {};
      reduction.offsets.push_back(bytes);
      bytes += llvm::alignTo(plan.columnBlock * countBytes(type), lineBytes);
    }
  }
  return streamed;
}

bool cpu::areWorthStreaming(ArrayRef<StreamedReduction> streamed, const MapPlan &plan,
                            const CPUInfo &target) {
  return llvm::any_of(streamed, [&](const StreamedReduction &reduction) {
    kernel::ReduceOp reduce = reduction.op;
    unsigned step = kernel::getDimExtents(reduce->getParentRegion()).size();
    return isWorthStreaming(reduce, *plan.columns, step, target);
  });
}

int64_t cpu::chooseStreamedColumns(const DimGroup &columns, int64_t lanes) {
  constexpr int64_t narrow = 512, wide = 1024, widest = 4096, tasks = 16;
  int64_t count = estimate(columns.extent);
  int64_t block = count < 4 * wide ? narrow : std::clamp(count / tasks, wide, widest);
  return llvm::alignTo(block, lanes);
}
