#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Builders.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERPLANMEMORY
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

/// An allocation and the steps [begin, end) of the program between which its memory is taken.
struct Interval {
  AllocOp alloc;
  size_t begin, end;
  int64_t bytes = 0, offset = 0;

  bool overlaps(const Interval &other) const { return begin < other.end && other.begin < end; }
};

/// Allocations in program order. Memory that is never freed is taken to the end.
SmallVector<Interval> getIntervals(Block &block) {
  SmallVector<Interval> intervals;
  DenseMap<Value, size_t> owner; // buffer: interval of the allocation it got its memory from
  size_t step = 0;
  for (Operation &op : block) {
    ++step;
    if (auto alloc = dyn_cast<AllocOp>(op)) {
      owner[alloc] = intervals.size();
      intervals.push_back({alloc, step, SIZE_MAX});
    } else if (auto reuse = dyn_cast<ReuseOp>(op)) {
      owner[reuse] = owner.lookup(reuse.getBuffer());
    } else if (auto free = dyn_cast<FreeOp>(op)) {
      intervals[owner.lookup(free.getBuffer())].end = step;
    }
  }
  return intervals;
}

/// Greedy by size; returns the size of the arena, or nullopt when it is past 64 bits.
std::optional<int64_t> placeBySize(MutableArrayRef<Interval *> intervals) {
  llvm::sort(intervals, [](auto *a, auto *b) {
    return std::tuple(-a->bytes, a->begin) < std::tuple(-b->bytes, b->begin);
  });
  int64_t total = 0;
  SmallVector<Interval *> placed; // by offset
  for (Interval *interval : intervals) {
    if (interval->bytes == 0)
      continue;
    int64_t end = 0, best = -1, bestGap = INT64_MAX;
    for (Interval *other : placed) {
      if (!interval->overlaps(*other))
        continue;
      int64_t gap = other->offset - end;
      if (gap >= interval->bytes && gap < bestGap) {
        best = end;
        bestGap = gap;
      }
      end = std::max(end, other->offset + other->bytes);
    }
    interval->offset = best >= 0 ? best : end;
    if (interval->bytes > INT64_MAX - interval->offset)
      return std::nullopt;
    total = std::max(total, interval->offset + interval->bytes);
    placed.insert(
        llvm::upper_bound(placed, interval, [](auto *a, auto *b) { return a->offset < b->offset; }),
        interval);
  }
  return total;
}

struct PlanMemory : kiln::impl::WrapperPlanMemoryBase<PlanMemory> {
  void runOnOperation() override {
    ProgramOp program = getOperation();
    SmallVector<Interval> intervals = getIntervals(program.getBody().front());
    SmallVector<Interval *> fixed, symbolic;
    for (Interval &interval : intervals) {
      sym::Expr bytes = alignBytes(interval.alloc.getType().getBytes());
      if (!bytes.isValid())
        return fail(interval.alloc);
      if (bytes.isConstant())
        interval.bytes = *bytes.constant();
      (bytes.isConstant() ? fixed : symbolic).push_back(&interval);
    }
    std::optional<int64_t> fixedBytes = placeBySize(fixed);
    if (!fixedBytes)
      return fail(program);
    for (Interval *interval : fixed)
      setOffset(interval->alloc, interval->offset);
    sym::Expr end = *fixedBytes;
    for (Interval *interval : symbolic) {
      setOffset(interval->alloc, end);
      end = end + alignBytes(interval->alloc.getType().getBytes());
    }
    if (!end.isValid())
      return fail(program);
    program.setArenaBytesAttr(sym::ExprAttr::get(&getContext(), end));
  }

  void setOffset(AllocOp alloc, sym::Expr offset) {
    alloc.setOffsetAttr(sym::ExprAttr::get(&getContext(), offset));
  }

  void fail(Operation *op) {
    op->emitError("the arena is larger than 64 bits can address");
    signalPassFailure();
  }
};

} // namespace
