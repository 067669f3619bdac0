// Merges: a block has as many neighbouring elements of the result as its threads' registers hold.
// Runs of one element it sorts. Of two longer runs it first finds which elements of either one are
// its own, by where the diagonals of its first and last element cross the path along which the runs
// merge (Green, McColl and Bader, "GPU Merge Path", 2012). It reads those of the first run forwards
// and those of the second one backwards: together they ascend and then descend, and the last stage
// of a bitonic network sorts them.
//
//       first run:  . . a a a a . .            elements  a a a a ^ ^ b b b b
//       second run: . b b b b . . . . .                  ------> | | <------
//                                              places that no element has: the greatest of all
#include "CUDA/Map/ThreadTeam.h"
#include "CUDA/Ordered/SortNetwork.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static constexpr int64_t mergeThreads = 256, mergeElements = 16;

static int64_t getBlock(MergeScheduleAttr schedule) {
  return schedule.getThreads() * schedule.getElements();
}

/// Fails where blocks of `schedule` do not make the runs of `merge`.
static LogicalResult verifyBlock(MergeScheduleAttr schedule, kernel::FuncOp func,
                                 kernel::MergeOp merge) {
  int64_t block = getBlock(schedule), of = merge.getOf(), into = merge.getInto();
  if (!SortNetwork::mayHave(block, schedule.getThreads()))
    return func.emitError("elements = ")
           << schedule.getElements() << " of each of " << schedule.getThreads()
           << " threads, which have to be 4 to 32, and 256 or more in a block";
  if (of == 1 ? into == block : into == 2 * of && into % block == 0)
    return success();
  return func.emitError("a block of ")
         << block << " elements cannot merge runs of " << of << " into runs of " << into;
}

FailureOr<KernelPlan> cuda::planMerge(kernel::FuncOp func) {
  auto merge = cast<kernel::MergeOp>(func.getRoot());
  if (failed(codegen::verifyValueTypes(merge)))
    return failure();
  StringRef reason = merge.getOf() == 1 ? "a block sorts a tile of a long row"
                                        : "a block finds its part of two runs that are merged";
  auto schedule = MergeScheduleAttr::get(func.getContext(), mergeThreads, mergeElements);
  if (kernel::ScheduleAttrInterface given = func.getScheduleAttr()) {
    schedule = dyn_cast<MergeScheduleAttr>(given);
    if (!schedule)
      return emitUnknownSchedule(func);
    reason = givenReason;
  }
  if (failed(verifyBlock(schedule, func, merge)))
    return failure();
  SmallVector<sym::Expr> extents = merge.getExtents();
  return KernelPlan{schedule,
                    sym::product(ArrayRef(extents).drop_back()) *
                        extents.back().ceilDiv(getBlock(schedule)),
                    schedule.getThreads(), reason};
}

namespace {
class BlockMerge {
public:
  BlockMerge(DeviceFrame &frame, kernel::MergeOp merge)
      : frame(frame), b(frame.builder), loc(frame.loc), merge(merge), domain(merge.getExtents()),
        perThread(getSchedule<MergeScheduleAttr>(frame.func).getElements()),
        types(merge.getBody().front().getTerminator()->getOperandTypes()),
        body(frame, merge.getBody()), warp(frame, warpSize), network(frame, types, perThread) {}

  void emit() {
    int64_t block = perThread * frame.numThreads;
    ArrayRef<sym::Expr> rows = ArrayRef(domain).drop_back();
    sym::Expr numRows = sym::product(rows), numTiles = domain.back().ceilDiv(block);
    sym::Expr number = frame.addVariable(frame.block, numRows * numTiles);
    sym::Expr row = frame.named(number.floorDiv(numTiles), numRows);
    sym::Expr tile = frame.named(number.mod(numTiles), numTiles);
    for (auto [dim, value] : llvm::enumerate(sym::delinearize(row, rows)))
      body.setDim(dim, frame.assumptions.simplify(value));
    body.emitAvailable();
    length = frame.emit(domain.back());
    Value first = frame.simplifyAndEmit(tile * block);
    Value count = least(sub(length, first), frame.constant(block));
    if (merge.getOf() == 1)
      sortTile(first, count);
    else
      mergeRuns(first, count);
    Value start = frame.simplifyAndEmit(row * domain.back() + tile * block);
    for (auto [i, type] : llvm::enumerate(types)) {
      Value result = frame.gep(frame.resultBuffer(i), type, start);
      for (auto [number, element] : llvm::enumerate(network.elements)) {
        Value place = network.getPlace(number);
        frame.emitIf(less(place, count), [&] {
          LLVM::StoreOp::create(b, loc, element[i], frame.gep(result, type, place),
                                type.getIntOrFloatBitWidth() / 8);
        });
      }
    }
  }

private:
  void sortTile(Value first, Value count) {
    for (int64_t i = 0; i < perThread; ++i) {
      Value place = network.getPlace(i);
      network.elements[i] = readWhere(less(place, count), add(first, place));
    }
    network.sort();
  }

  void mergeRuns(Value first, Value count) {
    Value into = frame.constant(merge.getInto()), of = frame.constant(merge.getOf());
    Value zero = frame.constant(0);
    Value inside = arith::RemUIOp::create(b, loc, first, into);
    // The beginnings of the two runs, and their lengths.
    Value left = sub(first, inside);
    Value right = least(add(left, of), length);
    Value numLeft = sub(right, left), numRight = least(sub(length, right), of);
    // Even warps find the beginning, odd ones the end.
    Value places = frame.allocateShared(int64_t{2} * 8);
    Value side = arith::AndIOp::create(b, loc, warp.number, frame.constant(1));
    auto search = [&](Value side) {
      Value diagonal = add(inside, arith::MulIOp::create(b, loc, side, count));
      Value found = searchDiagonal(diagonal, left, numLeft, right, numRight);
      Value isFirstLane = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, warp.rank, zero);
      frame.emitIf(isFirstLane, [&] {
        LLVM::StoreOp::create(b, loc, found, frame.gep(places, b.getI64Type(), side));
      });
    };
    search(side);
    if (frame.numThreads == warpSize)
      search(frame.constant(1));
    frame.emitBarrier();
    auto load = [&](int64_t side) {
      return LLVM::LoadOp::create(b, loc, b.getI64Type(),
                                  frame.gep(places, b.getI64Type(), frame.constant(side)));
    };
    Value leftBegin = load(0), leftCount = sub(load(1), leftBegin);
    Value rightBegin = sub(inside, leftBegin), rightCount = sub(count, leftCount);
    leftBegin = add(left, leftBegin);
    // Of the second run, place i has the element that many places before the block's end.
    int64_t block = perThread * frame.numThreads;
    Value rightEnd = add(add(right, rightBegin), frame.constant(block - 1));
    Value rightPlace = sub(frame.constant(block), rightCount);
    for (int64_t i = 0; i < perThread; ++i) {
      Value place = network.getPlace(i);
      Value isLeft = less(place, leftCount);
      Value isElement = arith::OrIOp::create(
          b, loc, isLeft,
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, place, rightPlace));
      network.elements[i] =
          readWhere(isElement, arith::SelectOp::create(b, loc, isLeft, add(leftBegin, place),
                                                       sub(rightEnd, place)));
    }
    network.merge();
  }

  /// How many of the first `diagonal` elements of both runs together are of the first one. All lanes
  /// of a warp look at once: each at the end of its part of what is still possible.
  Value searchDiagonal(Value diagonal, Value left, Value numLeft, Value right, Value numRight) {
    Type i64 = b.getI64Type();
    Value one = frame.constant(1), lanes = frame.constant(warpSize);
    Value most = least(diagonal, numLeft);
    Value begin = arith::MaxSIOp::create(b, loc, sub(diagonal, numRight), frame.constant(0));
    auto loop = scf::WhileOp::create(b, loc, TypeRange{i64, i64}, ValueRange{begin, most});
    OpBuilder::InsertionGuard guard(b);
    Block *before = b.createBlock(&loop.getBefore(), {}, TypeRange{i64, i64}, {loc, loc});
    scf::ConditionOp::create(b, loc, less(before->getArgument(0), before->getArgument(1)),
                             before->getArguments());
    Block *after = b.createBlock(&loop.getAfter(), {}, TypeRange{i64, i64}, {loc, loc});
    Value low = after->getArgument(0), high = after->getArgument(1);
    Value part = arith::CeilDivUIOp::create(b, loc, sub(high, low), lanes);
    Value mine = sub(add(low, arith::MulIOp::create(b, loc, add(warp.rank, one), part)), one);
    // More of the first run are among them if its next one comes before the last of the second's.
    Value isAmong =
        frame
            .emitWhere(less(mine, high), {arith::ConstantIntOp::create(b, loc, 0, 1).getResult()},
                       [&]() -> SmallVector<Value> {
                         Value other = sub(sub(diagonal, one), mine);
                         return {isLess(read(add(left, mine)), read(add(right, other)))};
                       })
            .front();
    Value among = arith::ExtUIOp::create(b, loc, b.getI32Type(), isAmong);
    among = warp.combineLanes(among, warpSize,
                              [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
                                return {arith::AddIOp::create(b, loc, x.front(), y.front())};
                              })
                .front();
    Value passed = arith::MulIOp::create(b, loc, arith::ExtUIOp::create(b, loc, i64, among), part);
    Value next = add(low, passed);
    scf::YieldOp::create(b, loc, ValueRange{next, least(high, add(next, sub(part, one)))});
    return loop.getResult(0);
  }

  using Element = SortNetwork::Element;

  /// The row's element at `index`.
  Element read(Value index) {
    codegen::BodyEmitter::Scope scope(body);
    body.setDim(domain.size() - 1, frame.addVariable(index, domain.back()));
    return body.emitYield();
  }

  /// The same where `condition` holds, else what no element is greater than. What is read then is
  /// some element, so that all reads are under way at once.
  Element readWhere(Value condition, Value index) {
    Value last = sub(length, frame.constant(1));
    Element element = read(arith::MaxSIOp::create(b, loc, least(index, last), frame.constant(0)));
    for (Value &value : element) {
      unsigned width = value.getType().getIntOrFloatBitWidth();
      Value greatest = arith::ConstantOp::create(
          b, loc, b.getIntegerAttr(value.getType(), APInt::getSignedMaxValue(width)));
      value = arith::SelectOp::create(b, loc, condition, value, greatest);
    }
    return element;
  }

  Value isLess(const Element &x, const Element &y) { return network.isGreater(y, x); }
  Value less(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
  }
  Value least(Value x, Value y) { return arith::MinSIOp::create(b, loc, x, y); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }

  DeviceFrame &frame;
  OpBuilder &b;
  Location loc;
  kernel::MergeOp merge;
  SmallVector<sym::Expr> domain;
  int64_t perThread;
  SmallVector<Type> types;
  codegen::BodyEmitter body;
  ThreadTeam warp;
  SortNetwork network;
  Value length;
};
} // namespace

LogicalResult cuda::emitMerge(DeviceFrame &frame, kernel::MergeOp merge) {
  BlockMerge(frame, merge).emit();
  return success();
}
