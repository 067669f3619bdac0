// wrapper-plan-memory: gives every allocation its place in the arena.
#include "kiln/Dialect/Wrapper/Refusal.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "wrapper-plan-memory"

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
    LDBG() << interval->bytes << " bytes at " << interval->offset << " from step "
           << interval->begin << " to "
           << (interval->end == SIZE_MAX ? "the end" : std::to_string(interval->end)) << ": "
           << interval->alloc;
    total = std::max(total, interval->offset + interval->bytes);
    placed.insert(
        llvm::upper_bound(placed, interval, [](auto *a, auto *b) { return a->offset < b->offset; }),
        interval);
  }
  return total;
}

/// A segment of the arena that is reserved when the program has come to `start`.
struct Segment {
  Operation *start; // its first allocation; null for segment 0
  SmallVector<AllocOp> allocs = {};
};

/// Deals out the allocations with symbolic sizes. One can share a segment that is reserved before
/// it if all symbols of its size have their values there.
SmallVector<Segment> getSegments(HostFunctionOpInterface function) {
  llvm::SetVector<sym::Expr> defined = getDefinedSymbols(function);
  SmallVector<Segment> segments{{nullptr}};
  llvm::DenseSet<sym::Expr> late; // defined since the last segment was reserved
  for (Operation &op : function.getFunctionBody().front()) {
    late.insert_range(getDefinedSymbols(&op));
    auto alloc = dyn_cast<AllocOp>(op);
    if (!alloc || alloc.getType().getBytes().isConstant())
      continue;
    bool isDefined = false, isLate = false;
    alloc.getType().getBytes().walkLeaves([&](sym::Expr leaf) {
      isDefined |= defined.contains(leaf);
      isLate |= late.contains(leaf);
    });
    if (isLate) {
      segments.push_back({alloc});
      late.clear();
    }
    segments[isDefined ? segments.size() - 1 : 0].allocs.push_back(alloc);
  }
  return segments;
}

struct PlanMemory : kiln::impl::WrapperPlanMemoryBase<PlanMemory> {
  void runOnOperation() override {
    FailureOr<SmallVector<HostFunctionOpInterface>> functions = getFunctionsInOrder(getOperation());
    if (failed(functions))
      return signalPassFailure();
    SymbolTable symbols(getOperation());
    numSegments = 0;
    for (HostFunctionOpInterface function : *functions) {
      for (auto call :
           llvm::make_early_inc_range(function.getFunctionBody().getOps<GraphCallOpInterface>()))
        addWorkspace(call, symbols);
      plan(function);
    }
  }

  /// The graphs run one after the other: what is enough for the largest is enough.
  void addWorkspace(GraphCallOpInterface call, SymbolTable &symbols) {
    sym::Expr bytes;
    for (FlatSymbolRefAttr graph : call.getGraphs())
      bytes = sym::Expr::max(
          bytes, symbols.lookup<FuncOp>(graph.getValue()).getArenaBytesAttr().getValue());
    if (bytes.isConstant(0) || !call.getWorkspaceMutable().empty())
      return;
    OpBuilder builder(call);
    auto type = BufferType::getContiguous({bytes}, builder.getI8Type());
    Value workspace = AllocOp::create(builder, call.getLoc(), type);
    call.getWorkspaceMutable().assign(workspace);
    builder.setInsertionPointAfter(call);
    FreeOp::create(builder, call.getLoc(), workspace);
  }

  void plan(HostFunctionOpInterface function) {
    SmallVector<Interval> intervals = getIntervals(function.getFunctionBody().front());
    SmallVector<Interval *> fixed, symbolic;
    for (Interval &interval : intervals) {
      sym::Expr bytes = alignBytes(interval.alloc.getType().getBytes());
      if (!bytes.isValid())
        return fail(interval.alloc);
      if (!bytes.isConstant())
        continue;
      interval.bytes = *bytes.constant();
      fixed.push_back(&interval);
    }
    std::optional<int64_t> fixedBytes = placeBySize(fixed);
    if (!fixedBytes)
      return fail(function);
    for (Interval *interval : fixed)
      setOffset(interval->alloc, interval->offset);
    for (auto [i, segment] : llvm::enumerate(getSegments(function))) {
      int64_t number = i == 0 ? 0 : ++numSegments;
      sym::Expr end = number == 0 ? *fixedBytes : 0;
      for (AllocOp alloc : segment.allocs) {
        setOffset(alloc, end);
        alloc.setSegment(number);
        end = end + alignBytes(alloc.getType().getBytes());
      }
      if (!end.isValid())
        return fail(function);
      auto bytes = sym::ExprAttr::get(&getContext(), end);
      if (number == 0) {
        function.setArenaBytesAttr(bytes);
      } else {
        OpBuilder builder(segment.start);
        ReserveOp::create(builder, segment.start->getLoc(), number, bytes);
      }
    }
  }

  void setOffset(AllocOp alloc, sym::Expr offset) {
    alloc.setOffsetAttr(sym::ExprAttr::get(&getContext(), offset));
  }

  void fail(Operation *op) {
    emitRefusal(op, "the arena is larger than 64 bits can address");
    signalPassFailure();
  }

  int64_t numSegments = 0; // reserved by all functions
};

} // namespace
