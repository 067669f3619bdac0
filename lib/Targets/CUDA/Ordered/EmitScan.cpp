// Scans along long lines: a block has a line and goes along it in pieces, of which each thread has
// a few neighbouring elements. Lanes add up by shuffles, warps through shared memory. Where lines
// are few and long, a block has a part of one, and looks back for what comes before it.
#include "CUDA/Ordered/LookBack.h"
#include "kiln/Codegen/LoopNest.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Elements of a piece that a thread has.
static constexpr int64_t scanElements = 4;
/// The same where a block has a part of a line, as a rule one piece.
static constexpr int64_t partElements = 16;
/// Lines that are shorter than this are not cut.
static constexpr int64_t longLine = 16384;
/// Lines that are shorter than this are left to a thread each.
static constexpr int64_t shortLine = 64;
/// So many lines that go side by side occupy a multiprocessor with a thread each, which reads side
/// by side.
static constexpr int64_t manyLines = 32;
static constexpr int64_t mostScanThreads = 256;

static bool isLine(kernel::ScanOp scan, unsigned dim) { return dim != scan.getDim(); }

/// The sizes of the dims that are not scanned.
static SmallVector<sym::Expr> getLines(kernel::ScanOp scan) {
  SmallVector<sym::Expr> extents;
  for (auto [i, size] : llvm::enumerate(scan.getExtents()))
    if (isLine(scan, i))
      extents.push_back(size);
  return extents;
}

/// Elements of a line that a block has: pieces, such that all lines have at most as many parts as
/// there are flags where any has two. The last part of each of several lines may be short.
static sym::Expr getPart(kernel::ScanOp scan, ScanScheduleAttr schedule) {
  SmallVector<sym::Expr> extents = scan.getExtents();
  if (!schedule.getParts())
    return extents[scan.getDim()];
  int64_t piece = schedule.getThreads() * schedule.getElements();
  int64_t wholeParts =
      sym::product(getLines(scan)).isConstant(1) ? LookBack::maxParts : LookBack::maxParts / 2;
  sym::Expr pieces = sym::product(extents).ceilDiv(piece * wholeParts);
  return kernel::getAssumptions(&scan.getBody()).simplify(piece * sym::Expr::max(1, pieces));
}

static sym::Expr getNumParts(kernel::ScanOp scan, ScanScheduleAttr schedule) {
  return schedule.getParts() ? scan.getExtents()[scan.getDim()].ceilDiv(getPart(scan, schedule))
                             : sym::Expr(1);
}

/// Whether its elements may be combined in any order: the state is one value, and the next one a
/// single operation of it and the element.
static bool isCommutative(kernel::ScanOp scan) {
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
    return KernelPlan{schedule, sym::product(getLines(scan)) * getNumParts(scan, schedule),
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
  sym::Expr extent = scan.getExtents()[scan.getDim()];
  int64_t length = codegen::estimate(extent);
  // Blocks of parts that a multiprocessor runs at the same time.
  constexpr int64_t resident = 8;
  if (!kernel::getAssumptions(&scan.getBody()).isLess(extent, longLine) &&
      codegen::estimate(sym::product(getLines(scan))) <
          resident * getTarget(scan).getBusyBlocks() / 2)
    return plan(ScanScheduleAttr::get(func.getContext(), mostScanThreads, partElements, true),
                "lines are few and may be long, and their elements are combined in any groups");
  int64_t threads = warpSize;
  while (threads < mostScanThreads && threads * scanElements < length)
    threads *= 2;
  return plan(ScanScheduleAttr::get(func.getContext(), threads, scanElements, false),
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
    auto schedule = getSchedule<ScanScheduleAttr>(frame.func);
    SmallVector<sym::Expr> lines = getLines(scan);
    sym::Expr numLines = sym::product(lines), numParts = getNumParts(scan, schedule);
    sym::Expr part = getPart(scan, schedule), length = domain[scan.getDim()];
    sym::Expr block = frame.addVariable(frame.block, numLines * numParts);
    sym::Expr number = frame.named(block.mod(numParts), numParts);
    SmallVector<sym::Expr> place =
        sym::delinearize(frame.named(block.floorDiv(numParts), numLines), lines);
    for (unsigned dim = 0, next = 0; dim < domain.size(); ++dim)
      if (isLine(scan, dim)) {
        position[dim] = frame.assumptions.simplify(place[next++]);
        init.setDim(dim, position[dim]);
        body.setDim(dim, position[dim]);
      }
    State start = init.emitYield();
    body.emitAvailable();
    int64_t numWarps = frame.numThreads / warpSize;
    if (numWarps > 1)
      for (Value value : start)
        shared.push_back(frame.allocateShared(numWarps * getBytes(value.getType())));
    first = arith::MulIOp::create(b, loc, frame.thread, frame.constant(perThread));
    lane = arith::TruncIOp::create(b, loc, b.getI32Type(), warp.rank);
    warpVariable = frame.addVariable(warp.number, numWarps);
    end = frame.emit(length);
    if (!schedule.getParts())
      return scanPieces(frame.constant(0), start);
    Value begin = frame.simplifyAndEmit(part * number);
    end = frame.simplifyAndEmit(sym::Expr::min(part * number + part, length));
    isCut = frame.emitLess(1, numParts);
    LookBack others(frame, ValueRange(start).getTypes());
    lookBack = [&](ValueRange total) {
      return others.find(frame.simplifyAndEmit(number), frame.simplifyAndEmit(numLines * numParts),
                         start, total, [&](ValueRange x, ValueRange y) { return combine(x, y); });
    };
    sym::Expr piece = frame.numThreads * perThread;
    if (part == piece)
      return scanPiece(begin, start);
    Value hasSeveral = frame.emitLess(piece, part);
    frame.emitIf(hasSeveral, [&] {
      scanPieces(begin, frame.emitWhere(isCut, start, [&] { return lookBack(sumPieces(begin)); }));
    });
    if (hasSeveral)
      frame.emitIf(frame.emitLess(part, piece + 1), [&] { scanPiece(begin, start); });
  }

private:
  using State = SmallVector<Value>;

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

  State emitElement(Value index) {
    codegen::BodyEmitter::Scope scope(body);
    body.setDim(scan.getDim(), frame.addVariable(index, domain[scan.getDim()]));
    return body.emitYield();
  }

  /// The values of the elements, one after the other. Those behind the end are the last one once
  /// more: what comes of them reaches nobody. Neighbours of a whole piece are read together.
  SmallVector<Value> emitElements(ArrayRef<Value> indices, Value isWhole) {
    Value last = arith::SubIOp::create(b, loc, end, frame.constant(1));
    auto read = [&](bool whole) {
      SmallVector<Value> values;
      for (Value index : indices)
        llvm::append_range(
            values,
            emitElement(whole ? index : arith::MinSIOp::create(b, loc, index, last).getResult()));
      scf::YieldOp::create(b, loc, values);
    };
    return llvm::to_vector_of<Value>(scf::IfOp::create(
                                         b, loc, isWhole,
                                         [&](OpBuilder &, Location) { read(/*whole=*/true); },
                                         [&](OpBuilder &, Location) { read(/*whole=*/false); })
                                         .getResults());
  }

  /// What threads have of a piece: their elements, each with those of the thread before it, and
  /// what the warp's come to, and those before the lane's if it is not the first.
  struct Piece {
    Value isWhole; // up to the end there are as many elements
    SmallVector<Value> indices;
    SmallVector<State> sums;
    State before, total;
  };

  Piece readPiece(Value start) {
    Piece piece;
    Value begin = arith::AddIOp::create(b, loc, start, first);
    for (int64_t i = 0; i < perThread; ++i)
      piece.indices.push_back(arith::AddIOp::create(b, loc, begin, frame.constant(i)));
    Value next = arith::AddIOp::create(b, loc, start, frame.constant(frame.numThreads * perThread));
    piece.isWhole = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, next, end);
    SmallVector<Value> elements = emitElements(piece.indices, piece.isWhole);
    size_t count = elements.size() / perThread;
    for (int64_t i = 0; i < perThread; ++i) {
      State element(ArrayRef(elements).slice(i * count, count));
      piece.sums.push_back(i ? combine(piece.sums.back(), element) : element);
    }
    // Blocks of 2, 4, … lanes meet: `total` is that of the lane's block, `before` what comes before
    // the lane in it, if anything does.
    State total = piece.sums.back(), before = total;
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
    piece.before = before;
    piece.total = total;
    return piece;
  }

  void writePiece(const Piece &piece, ValueRange beforeWarp) {
    State prefix = select(hasBits(warpSize - 1), combine(beforeWarp, piece.before), beforeWarp);
    SmallVector<State> states;
    for (const State &sum : piece.sums)
      states.push_back(combine(prefix, sum));
    auto write = [&](bool whole) {
      for (auto [index, state] : llvm::zip(piece.indices, states))
        emitResult(index, state, whole);
      scf::YieldOp::create(b, loc);
    };
    scf::IfOp::create(
        b, loc, piece.isWhole, [&](OpBuilder &, Location) { write(/*whole=*/true); },
        [&](OpBuilder &, Location) { write(/*whole=*/false); });
  }

  /// Up to `end`.
  void scanPieces(Value begin, ValueRange start) {
    frame.emitLoop(begin, end, frame.numThreads * perThread, start,
                   [&](Value place, ValueRange carried) {
                     Piece piece = readPiece(place);
                     State prefix(carried), after = combine(carried, piece.total);
                     if (!shared.empty()) {
                       shareTotals(piece.total);
                       std::tie(prefix, after) = combineWarps(carried);
                       frame.emitBarrier(); // before the next piece's totals come
                     }
                     writePiece(piece, prefix);
                     return after;
                   });
  }

  /// A part that is one piece stays in registers while the block looks back.
  void scanPiece(Value begin, ValueRange start) {
    Piece piece = readPiece(begin);
    if (!shared.empty())
      shareTotals(piece.total);
    State before = frame.emitWhere(isCut, start, [&] { return lookBack(sumWarps(piece.total)); });
    State prefix(before);
    if (!shared.empty())
      prefix = combineWarps(before).first;
    writePiece(piece, prefix);
  }

  /// What pieces up to `end` come to, all of them whole, or of no matter.
  State sumPieces(Value begin) {
    auto sumPiece = [&](Value place) {
      State total = readPiece(place).total;
      if (shared.empty())
        return total;
      shareTotals(total);
      State sum = sumWarps(total);
      frame.emitBarrier(); // before the next piece's totals come
      return sum;
    };
    Value step = frame.constant(frame.numThreads * perThread);
    return frame.emitLoop(
        arith::AddIOp::create(b, loc, begin, step), end, frame.numThreads * perThread,
        sumPiece(begin),
        [&](Value place, ValueRange sum) { return combine(sum, sumPiece(place)); });
  }

  void shareTotals(ValueRange total) {
    Value isFirst =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, warp.rank, frame.constant(0));
    frame.emitIf(isFirst, [&] {
      for (auto [place, value] : llvm::zip(shared, total))
        memory.store(place, value.getType(), warpVariable, value);
    });
    frame.emitBarrier();
    totalTypes = llvm::to_vector(total.getTypes());
  }

  State loadTotal(int64_t i) {
    State total;
    for (auto [place, type] : llvm::zip(shared, totalTypes))
      total.push_back(memory.load(place, type, sym::Expr(i)));
    return total;
  }

  /// Of all warps' shared totals; `total` if there is one.
  State sumWarps(ValueRange total) {
    if (shared.empty())
      return State(total);
    State sum = loadTotal(0);
    for (int64_t i = 1; i < frame.numThreads / warpSize; ++i)
      sum = combine(sum, loadTotal(i));
    return sum;
  }

  /// The states before this warp, and after all of them.
  std::pair<State, State> combineWarps(ValueRange carried) {
    State prefix(carried), running(carried);
    for (int64_t i = 0; i < frame.numThreads / warpSize; ++i) {
      if (i) {
        Value isHere =
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, warp.number, frame.constant(i));
        prefix = select(isHere, running, prefix);
      }
      running = combine(running, loadTotal(i));
    }
    return {prefix, running};
  }

  void emitResult(Value index, ValueRange state, bool isInPiece) {
    Value isInside;
    if (!isInPiece)
      isInside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, index, end);
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
  SmallVector<Type> totalTypes;
  sym::Expr warpVariable = 0;
  Value isCut; // whether lines have several parts; null: they do
  /// The state before this block's part, which comes to so much.
  std::function<State(ValueRange)> lookBack;
};
} // namespace

LogicalResult cuda::emitScan(DeviceFrame &frame, kernel::ScanOp scan) {
  BlockScan(frame, scan).emit();
  return success();
}
