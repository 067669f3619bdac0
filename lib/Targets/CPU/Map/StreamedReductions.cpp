// Finds reductions along a dim whose elements lie far apart, while the map's columns lie next to each other: sums of the rows of
// a matrix, maxima over the channels of an image.
#include "CPU/Map/MapPlan.h"
#include "CPU/Streams.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

static int64_t countBytes(Type type) {
  return llvm::divideCeilSigned(type.getIntOrFloatBitWidth(), 8);
}

/// Some read of `reduce`, which has one dim, is of rows that level 2 cache does not hold.
static bool readsFarRows(kernel::ReduceOp reduce, const DimGroup &columns, const CPUInfo &target) {
  unsigned step = kernel::getDimExtents(reduce->getParentRegion()).size();
  return llvm::any_of(collectAccesses(reduce.getBody()), [&](const Access &access) {
    auto read = dyn_cast<kernel::ReadOp>(access.op);
    if (!read || !access.isOffset || classify(access.expr, columns.lastDim()) != Walk::Consecutive)
      return false;
    std::optional<sym::Linear> linear = sym::splitLinear(access.expr, sym::Expr::dim(step));
    Rows rows{estimate(reduce.getExtents().getSizes().front()), estimate(columns.extent),
              countBytes(cast<RankedTensorType>(read.getTensor().getType()).getElementType()),
              linear ? linear->coefficient.constant() : std::nullopt};
    return rows.areMany() &&
           (rows.areLarge() || (rows.shareSets() && rows.allBytes() >= target.l2Bytes));
  });
}

bool cpu::isWorthStreaming(kernel::MapOp map, const DimGroup &columns, const CPUInfo &target) {
  return llvm::any_of(
      map.getBody().front().getOps<kernel::ReduceOp>(), [&](kernel::ReduceOp reduce) {
        return reduce.getExtents().getSizes().size() == 1 && readsFarRows(reduce, columns, target);
      });
}

SmallVector<StreamedReduction> cpu::findStreamedReductions(kernel::MapOp map, const MapPlan &plan,
                                                           int64_t columns) {
  SmallVector<StreamedReduction> streamed;
  if (!plan.columns || columns == 0 || plan.turned || plan.window || !plan.inner.empty() ||
      !plan.reductions.empty() || plan.rowBlock != 1)
    return {};
  int64_t bytes = 0;
  for (auto reduce : map.getBody().front().getOps<kernel::ReduceOp>()) {
    if (reduce.getExtents().getSizes().size() != 1)
      return {};
    SmallVector<int64_t> offsets;
    for (Type type : reduce.getResultTypes()) {
      if (!type.isIntOrFloat() || type.isInteger(1))
        return {};
      offsets.push_back(bytes);
      bytes += llvm::alignTo(columns * countBytes(type), lineBytes);
    }
    streamed.push_back({reduce, offsets, bytes});
  }
  return streamed;
}

int64_t cpu::chooseStreamedColumns(const DimGroup &columns, int64_t lanes) {
  constexpr int64_t widest = 4096, tasks = 16;
  int64_t count = estimate(columns.extent);
  return llvm::alignTo(std::clamp(count / tasks, fewestStreamedColumns(count), widest), lanes);
}
