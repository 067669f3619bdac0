// Scans along long lines: a block has a line and goes along it in pieces, of which each thread has
// a few neighbouring elements. Lanes add up by shuffles, warps through shared memory. Where lines
// are few, a block has a part of one, and what comes before it (cuda-split-scans).
#include "CUDA/Map/ThreadTeam.h"
#include "kiln/Codegen/LoopNest.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Elements of a piece that a thread has.
static constexpr int64_t usualElements = 4;
/// Lines that are shorter than this are left to a thread each.
static constexpr int64_t shortLine = 64;
/// So many lines that go side by side occupy a multiprocessor with a thread each, which reads side
/// by side.
static constexpr int64_t manyLines = 32;
static constexpr int64_t mostThreads = 256;

static bool isLine(kernel::ScanOp scan, unsigned dim) { return dim != scan.getDim(); }

/// The sizes of the dims that are not scanned.
static SmallVector<sym::Expr> getLines(kernel::ScanOp scan) {
  SmallVector<sym::Expr> extents;
  for (auto [i, size] : llvm::enumerate(scan.getExtents()))
    if (isLine(scan, i))
      extents.push_back(size);
  return extents;
}

/// How many parts a line has that start on their own.
static sym::Expr getNumParts(kernel::ScanOp scan) {
  sym::ExprAttr part = scan.getPartAttr();
  return part ? scan.getExtents()[scan.getDim()].ceilDiv(part.getValue()) : sym::Expr(1);
}

bool cuda::isCommutative(kernel::ScanOp scan) {
  Block &combine = scan.getCombine().front();
  if (combine.getNumArguments() != 2 || combine.getOperations().size() != 2)
    return false;
  Operation &op = combine.front();
  auto yield = cast<kernel::YieldOp>(combine.back());
  if (op.getNumOperands() != 2 || op.getNumResults() != 1 ||
      yield.getOperands().front() != op.getResult(0))
    return false;
  bool takesBoth =
      (op.getOperand(0) == combine.getArgument(0) && op.getOperand(1) == combine.getArgument(1)) ||
      (op.getOperand(0) == combine.getArgument(1) && op.getOperand(1) == combine.getArgument(0));
  return takesBoth && isa<arith::AddFOp, arith::AddIOp, arith::MulFOp, arith::MulIOp, arith::AndIOp,
                          arith::OrIOp, arith::XOrIOp, arith::MaxSIOp, arith::MinSIOp,
                          arith::MaxUIOp, arith::MinUIOp, arith::MaximumFOp, arith::MinimumFOp>(op);
}

/// Threads may each combine some elements of a line.
static bool mayBeShared(kernel::ScanOp scan) {
  auto isNumber = [](Type type) { return type.isIntOrFloat() || isa<ComplexType>(type); };
  return llvm::all_of(scan.getInit().front().getTerminator()->getOperandTypes(), isNumber) &&
         (scan.getAssociative() || isCommutative(scan));
}

bool cuda::isBlockScan(kernel::ScanOp scan) {
  if (!mayBeShared(scan))
    return false;
  SmallVector<sym::Expr> domain = scan.getExtents();
  int64_t length = codegen::estimate(domain[scan.getDim()]);
  bool sideBySide = scan.getDim() + 1 != domain.size() && !domain.back().isConstant(1);
  if (sideBySide)
    return length >= 8 * shortLine && codegen::estimate(sym::product(getLines(scan))) <
                                          manyLines * getTarget(scan).getBusyBlocks();
  return length >= shortLine;
}

FailureOr<KernelPlan> cuda::planScan(kernel::FuncOp func) {
  auto scan = cast<kernel::ScanOp>(func.getRoot());
  if (failed(codegen::verifyValueTypes(scan)))
    return failure();
  auto plan = [&](ScanScheduleAttr schedule, StringRef reason) {
    return KernelPlan{schedule, sym::product(getLines(scan)) * getNumParts(scan),
                      schedule.getThreads(), reason};
  };
  if (kernel::ScheduleAttrInterface given = func.getScheduleAttr()) {
    auto schedule = dyn_cast<ScanScheduleAttr>(given);
    if (!schedule)
      return emitUnknownSchedule(func);
    if (!mayBeShared(scan))
      return func.emitError("a block has no line of a scan whose elements are combined in order");
    return plan(schedule, givenReason);
  }
  int64_t length = codegen::estimate(scan.getExtents()[scan.getDim()]);
  int64_t threads = warpSize;
  while (threads < mostThreads && threads * usualElements < length)
    threads *= 2;
  return plan(ScanScheduleAttr::get(func.getContext(), threads, usualElements),
              "lines are long, and their elements are combined in any groups");
}

namespace {
class BlockScan {
public:
  BlockScan(DeviceFrame &frame, kernel::ScanOp scan)
      : frame(frame), b(frame.builder), loc(frame.loc), scan(scan), domain(scan.getExtents()),
        perThread(getSchedule<ScanScheduleAttr>(frame.func).getElements()), warp(frame, warpSize),
        init(frame, scan.getInit()), body(frame, scan.getBody()),
        combiner(frame, scan.getCombine()), finish(frame, scan.getFinish()), memory(frame, nothing),
        position(domain.size()) {
    memory.setLanes(1);
  }

  void emit() {
    SmallVector<sym::Expr> lines = getLines(scan);
    sym::Expr numLines = sym::product(lines), numParts = getNumParts(scan);
    sym::Expr block = frame.addVariable(frame.block, numLines * numParts);
    sym::Expr number = frame.named(block.mod(numParts), numParts), length = domain[scan.getDim()];
    SmallVector<sym::Expr> place =
        sym::delinearize(frame.named(block.floorDiv(numParts), numLines), lines);
    for (unsigned dim = 0, next = 0; dim < domain.size(); ++dim)
      if (isLine(scan, dim)) {
        position[dim] = frame.assumptions.simplify(place[next++]);
        init.setDim(dim, position[dim]);
        body.setDim(dim, position[dim]);
      }
    sym::Expr begin = 0, behind = length;
    if (sym::ExprAttr part = scan.getPartAttr()) {
      begin = frame.named(part.getValue() * number, length);
      behind = frame.named(sym::Expr::min(begin + part.getValue(), length), length + 1);
      init.setDim(scan.getDim(), begin);
    }
    State start = init.emitYield();
    body.emitAvailable();
    end = frame.emit(behind);
    int64_t numWarps = frame.numThreads / warpSize;
    if (numWarps > 1)
      for (Value value : start)
        shared.push_back(frame.allocateShared(numWarps * getBytes(value.getType())));
    first = arith::MulIOp::create(b, loc, frame.thread, frame.constant(perThread));
    lane = arith::TruncIOp::create(b, loc, b.getI32Type(), warp.rank);
    warpVariable = frame.addVariable(warp.number, numWarps);
    frame.emitLoop(frame.emit(begin), end, frame.numThreads * perThread, start,
                   [&](Value piece, ValueRange carried) { return emitPiece(piece, carried); });
  }

private:
  using State = SmallVector<Value>;

  static int64_t getBytes(Type type) {
    if (auto complex = dyn_cast<ComplexType>(type))
      return 2 * getBytes(complex.getElementType());
    return std::max(8u, type.getIntOrFloatBitWidth()) / 8;
  }

  State combine(ValueRange before, ValueRange after) {
    codegen::BodyEmitter::Scope scope(combiner);
    for (auto [i, value] : llvm::enumerate(before)) {
      combiner.setArgument(i, value);
      combiner.setArgument(before.size() + i, after[i]);
    }
    return combiner.emitYield();
  }

  State select(Value condition, ValueRange yes, ValueRange no) {
    State result;
    for (auto [x, y] : llvm::zip(yes, no))
      result.push_back(arith::SelectOp::create(b, loc, condition, x, y));
    return result;
  }

  /// Whether the lane's number has one of these bits.
  Value hasBits(int64_t bits) {
    Value mask = arith::ConstantIntOp::create(b, loc, bits, 32);
    Value zero = arith::ConstantIntOp::create(b, loc, 0, 32);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne,
                                 arith::AndIOp::create(b, loc, lane, mask), zero);
  }

  /// Elements behind the end are the last one once more: what comes of them reaches nobody.
  State emitElement(Value index) {
    codegen::BodyEmitter::Scope scope(body);
    Value last = arith::SubIOp::create(b, loc, end, frame.constant(1));
    Value inside = arith::MinSIOp::create(b, loc, index, last);
    body.setDim(scan.getDim(), frame.addVariable(inside, domain[scan.getDim()]));
    return body.emitYield();
  }

  /// Gives the state after the piece, in every thread.
  State emitPiece(Value piece, ValueRange carried) {
    Value begin = arith::AddIOp::create(b, loc, piece, first);
    SmallVector<Value> indices;
    SmallVector<State> sums;
    for (int64_t i = 0; i < perThread; ++i) {
      indices.push_back(arith::AddIOp::create(b, loc, begin, frame.constant(i)));
      State element = emitElement(indices.back());
      sums.push_back(sums.empty() ? element : combine(sums.back(), element));
    }
    // Blocks of 2, 4, … lanes meet: `total` is that of the lane's block, `before` what comes before
    // the lane in it, if anything does.
    State total = sums.back(), before = total;
    for (int64_t distance = 1; distance < warpSize; distance *= 2) {
      State other;
      for (Value value : total)
        other.push_back(warp.shuffle(value, distance));
      State both =
          distance == 1 ? other : select(hasBits(distance - 1), combine(other, before), other);
      before = select(hasBits(distance), both, before);
      // Upper lanes come after lower ones.
      total = isCommutative(scan) ? combine(total, other)
                                  : combine(select(hasBits(distance), other, total),
                                            select(hasBits(distance), total, other));
    }
    State after = combine(carried, total), prefix(carried);
    if (!shared.empty())
      std::tie(prefix, after) = combineWarps(carried, total);
    prefix = select(hasBits(warpSize - 1), combine(prefix, before), prefix);
    for (auto [index, sum] : llvm::zip(indices, sums))
      emitResult(index, combine(prefix, sum));
    return after;
  }

  /// The states before this warp, and after all of them.
  std::pair<State, State> combineWarps(ValueRange carried, ValueRange total) {
    Value isFirst =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, warp.rank, frame.constant(0));
    frame.emitIf(isFirst, [&] {
      for (auto [place, value] : llvm::zip(shared, total))
        memory.store(place, value.getType(), warpVariable, value);
    });
    frame.emitBarrier();
    State prefix(carried), running(carried);
    for (int64_t i = 0; i < frame.numThreads / warpSize; ++i) {
      if (i) {
        Value isHere =
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, warp.number, frame.constant(i));
        prefix = select(isHere, running, prefix);
      }
      State next;
      for (auto [place, value] : llvm::zip(shared, total))
        next.push_back(memory.load(place, value.getType(), sym::Expr(i)));
      running = combine(running, next);
    }
    frame.emitBarrier(); // before the next piece's totals come
    return {prefix, running};
  }

  void emitResult(Value index, ValueRange state) {
    Value isInside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, index, end);
    frame.emitIf(isInside, [&] {
      codegen::BodyEmitter::Scope scope(finish);
      finish.setLanes(1);
      for (auto [i, value] : llvm::enumerate(state))
        finish.setArgument(i, value);
      SmallVector<sym::Expr> element(position);
      element[scan.getDim()] = frame.addVariable(index, domain[scan.getDim()]);
      sym::Expr offset = sym::linearize(element, domain);
      for (auto [i, value] : llvm::enumerate(finish.emitYield())) {
        auto type = cast<RankedTensorType>(scan.getResult(i).getType());
        finish.store(frame.resultBuffer(i), type.getElementType(), offset, value);
      }
    });
  }

  DeviceFrame &frame;
  OpBuilder &b;
  Location loc;
  kernel::ScanOp scan;
  SmallVector<sym::Expr> domain;
  int64_t perThread;
  ThreadTeam warp;
  codegen::BodyEmitter init, body, combiner, finish;
  Region nothing; // an emitter for memory accesses alone
  codegen::BodyEmitter memory;
  SmallVector<sym::Expr> position;
  Value end, first, lane;    // where the line or part ends
  SmallVector<Value> shared; // a place for each value of the state
  sym::Expr warpVariable = 0;
};
} // namespace

LogicalResult cuda::emitScan(DeviceFrame &frame, kernel::ScanOp scan) {
  BlockScan(frame, scan).emit();
  return success();
}
