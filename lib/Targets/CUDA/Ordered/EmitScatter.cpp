// Scatters of which the last place alone counts, of those that write one element: a block has some
// neighbouring places and some of the batch. It reads the targets of all places behind its own, and
// so finds which of them are written over: the others are written by all threads, in no order.
#include "kiln/Codegen/BodyEmitter.h"
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static constexpr int64_t scatterThreads = 256, scatterElements = 4;
/// Every block looks at all later places: of more than this, places that take turns are faster.
static constexpr int64_t maxPlaces = 1 << 16;

bool cuda::isPlaceScatter(kernel::FuncOp func) {
  auto scatter = dyn_cast<kernel::ScatterOp>(func.getRoot());
  if (!scatter || !func.getUpdates() || !codegen::haveOrderedPlaces(scatter))
    return false;
  Block &combine = scatter.getCombine().front();
  return combine.getTerminator()->getOperand(0) == combine.getArgument(1) &&
         sym::product(scatter.getPlaces().getSizes()).constant().value_or(0) <= maxPlaces;
}

FailureOr<KernelPlan> cuda::planScatter(kernel::FuncOp func) {
  auto scatter = cast<kernel::ScatterOp>(func.getRoot());
  if (failed(codegen::verifyValueTypes(scatter)))
    return failure();
  StringRef reason = "a block finds which of its places are written over by later ones";
  sym::Expr places = sym::product(scatter.getPlaces().getSizes());
  sym::Expr batch = sym::product(scatter.getBatch().getSizes());
  auto schedule = dyn_cast_if_present<ScatterScheduleAttr>(func.getScheduleAttr());
  if (func.getScheduleAttr()) {
    if (!schedule)
      return emitUnknownSchedule(func);
    if (!isPlaceScatter(func))
      return func.emitError("cannot be run with the schedule ")
             << schedule << ": each write depends on those before it";
    reason = givenReason;
  } else {
    int64_t block = scatterThreads * scatterElements;
    int64_t ofBatch = std::clamp<int64_t>(
        static_cast<int64_t>(llvm::bit_ceil(static_cast<uint64_t>(codegen::estimate(batch)))), 4,
        block);
    schedule =
        ScatterScheduleAttr::get(func.getContext(), scatterThreads, block / ofBatch, ofBatch);
  }
  return KernelPlan{schedule,
                    places.ceilDiv(schedule.getPlaces()) * batch.ceilDiv(schedule.getBatch()),
                    schedule.getThreads(), reason};
}

namespace {
class PlaceScatter {
public:
  PlaceScatter(DeviceFrame &frame, kernel::ScatterOp scatter)
      : frame(frame), b(frame.builder), loc(frame.loc), scatter(scatter),
        schedule(getSchedule<ScatterScheduleAttr>(frame.func)),
        type(cast<RankedTensorType>(scatter.getType()).getElementType()),
        firstTarget(scatter.getNumBatch()), firstPlace(firstTarget + scatter.getNumTargets()),
        extents(scatter.getExtents()), resultDims(scatter.getResultDims()),
        numPlaces(sym::product(ArrayRef(extents).drop_front(firstPlace))),
        update(frame, scatter.getUpdate()) {
    for (int64_t dim : resultDims)
      if (dim < firstTarget) {
        batchDims.push_back(dim);
        batchExtents.push_back(extents[dim]);
      }
  }

  void emit() {
    sym::Expr numParts = sym::product(batchExtents).ceilDiv(schedule.getBatch());
    sym::Expr numGroups = numPlaces.ceilDiv(schedule.getPlaces());
    sym::Expr number = frame.addVariable(frame.block, numGroups * numParts);
    begin = frame.named(number.floorDiv(numParts), numGroups) * schedule.getPlaces();
    beginBatch = frame.named(number.mod(numParts), numParts) * schedule.getBatch();
    targets = frame.allocateShared(8 * schedule.getPlaces());
    areLost = frame.allocateShared(schedule.getPlaces());
    readOwnTargets();
    frame.emitBarrier();
    readLaterTargets();
    frame.emitBarrier();
    // All reads are under way before anything is written.
    SmallVector<Element> elements;
    for (int64_t i = 0; i < schedule.getPlaces() * schedule.getBatch(); i += frame.numThreads)
      elements.push_back(compute(i));
    sym::Expr size = sym::product(sym::getShape(scatter.getResult()));
    for (const Element &element : elements)
      frame.emitIf(element.isWritten, [&] {
        update.store(frame.resultBuffer(0), type, frame.addVariable(element.offset, size),
                     element.value);
      });
  }

private:
  /// What a thread writes.
  struct Element {
    Value isWritten, value, offset;
  };

  /// Runs `body` for the thread's numbers below `end`, of which the first is `first`.
  void loop(Value first, Value end, function_ref<void(Value)> body) {
    frame.emitLoop(first, end, frame.numThreads, {}, [&](Value i, ValueRange) {
      body(i);
      return SmallVector<Value>();
    });
  }

  void setPlace(sym::Expr place) {
    ArrayRef<sym::Expr> sizes = ArrayRef(extents).drop_front(firstPlace);
    for (auto [dim, value] : llvm::enumerate(sym::delinearize(place, sizes)))
      update.setDim(firstPlace + dim, frame.assumptions.simplify(value));
  }

  /// The target of a place as one number, -1 where nothing is written. `reports`: a target that
  /// there is not fails the run.
  Value readTarget(sym::Expr place, bool reports) {
    codegen::BodyEmitter::Scope scope(update);
    setPlace(place);
    SmallVector<Value> values = update.emitKnown();
    Value isWanted = values[firstPlace - firstTarget];
    Value isInside = arith::ConstantIntOp::create(b, loc, 1, 1), target = frame.constant(0);
    for (int64_t dim = firstTarget; dim < firstPlace; ++dim) {
      Value value = values[dim - firstTarget], extent = frame.emit(extents[dim]);
      Value isBelow = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, value, extent);
      isInside = arith::AndIOp::create(b, loc, isInside, isBelow);
      target = add(arith::MulIOp::create(b, loc, target, extent), value);
    }
    if (reports) {
      Value isOutside =
          arith::XOrIOp::create(b, loc, isInside, arith::ConstantIntOp::create(b, loc, 1, 1));
      frame.emitIf(frame.both(isWanted, isOutside), [&] {
        LLVM::StoreOp::create(b, loc, arith::ConstantIntOp::create(b, loc, 1, 32), frame.error);
      });
    }
    return arith::SelectOp::create(b, loc, frame.both(isWanted, isInside), target,
                                   frame.constant(-1));
  }

  void readOwnTargets() {
    loop(frame.thread, frame.constant(schedule.getPlaces()), [&](Value own) {
      sym::Expr place = begin + frame.addVariable(own, schedule.getPlaces());
      Value none = frame.constant(-1);
      Value target = frame
                         .emitWhere(frame.emitLess(place, numPlaces), none,
                                    [&]() -> SmallVector<Value> {
                                      return {readTarget(place, /*reports=*/true)};
                                    })
                         .front();
      LLVM::StoreOp::create(b, loc, target, frame.gep(targets, b.getI64Type(), own));
      setLost(own, arith::ExtUIOp::create(b, loc, b.getI8Type(), equal(target, none)));
    });
  }

  void readLaterTargets() {
    Value first = frame.simplifyAndEmit(begin);
    loop(add(first, frame.thread), frame.emit(numPlaces), [&](Value later) {
      Value target = readTarget(frame.addVariable(later, numPlaces), /*reports=*/false);
      frame.emitLoop(frame.constant(0), frame.constant(schedule.getPlaces()), 1, {},
                     [&](Value own, ValueRange) -> SmallVector<Value> {
                       Value mine = LLVM::LoadOp::create(b, loc, b.getI64Type(),
                                                         frame.gep(targets, b.getI64Type(), own));
                       Value isLater = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                                             add(first, own), later);
                       frame.emitIf(frame.both(isLater, equal(mine, target)), [&] {
                         setLost(own, arith::ConstantIntOp::create(b, loc, 1, 8));
                       });
                       return {};
                     });
    });
  }

  void setLost(Value own, Value isLost) {
    LLVM::StoreOp::create(b, loc, isLost, frame.gep(areLost, b.getI8Type(), own));
  }

  /// The thread's element behind the block's first `passed`. Neighbours in memory are neighbours in
  /// a warp.
  Element compute(int64_t passed) {
    sym::Expr number = passed + frame.addVariable(frame.thread, frame.numThreads);
    sym::Expr places = schedule.getPlaces(), batch = schedule.getBatch();
    bool isBatchInner = !resultDims.empty() && resultDims.back() < firstTarget;
    sym::Expr own = frame.named(isBatchInner ? number.floorDiv(batch) : number.mod(places), places);
    sym::Expr inBatch = beginBatch + (isBatchInner ? number.mod(batch) : number.floorDiv(places));
    Value isLost = LLVM::LoadOp::create(b, loc, b.getI8Type(),
                                        frame.gep(areLost, b.getI8Type(), frame.emit(own)));
    Value isWritten = frame.both(equal(isLost, arith::ConstantIntOp::create(b, loc, 0, 8)),
                                 frame.emitLess(inBatch, sym::product(batchExtents)));
    Value nothing =
        arith::ConstantOp::create(b, loc, cast<TypedAttr>(b.getZeroAttr(getYieldType())));
    SmallVector<Value> found =
        frame.emitWhere(isWritten, {nothing, frame.constant(0)}, [&]() -> SmallVector<Value> {
          codegen::BodyEmitter::Scope scope(update);
          SmallVector<sym::Expr> position(firstPlace);
          for (auto [dim, value] : llvm::zip_equal(
                   batchDims, sym::delinearize(frame.named(inBatch, sym::product(batchExtents)),
                                               batchExtents))) {
            position[dim] = frame.assumptions.simplify(value);
            update.setDim(dim, position[dim]);
          }
          setPlace(frame.named(begin + own, numPlaces));
          SmallVector<Value> values = update.emitYield();
          for (int64_t dim = firstTarget; dim < firstPlace; ++dim)
            position[dim] = frame.addVariable(values[dim - firstTarget], extents[dim]);
          SmallVector<sym::Expr> element, sizes;
          for (int64_t dim : resultDims) {
            element.push_back(position[dim]);
            sizes.push_back(extents[dim]);
          }
          return {values.back(), frame.simplifyAndEmit(sym::linearize(element, sizes))};
        });
    return {isWritten, found[0], found[1]};
  }

  /// What `update` yields: a bool is one in a register.
  Type getYieldType() {
    return scatter.getUpdate().front().getTerminator()->getOperands().back().getType();
  }

  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value equal(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, y);
  }

  DeviceFrame &frame;
  OpBuilder &b;
  Location loc;
  kernel::ScatterOp scatter;
  ScatterScheduleAttr schedule;
  Type type;
  int64_t firstTarget, firstPlace; // dims
  SmallVector<sym::Expr> extents;
  SmallVector<int64_t> resultDims;
  sym::Expr numPlaces;
  codegen::BodyEmitter update;
  /// The batch in the result's order.
  SmallVector<int64_t> batchDims;
  SmallVector<sym::Expr> batchExtents;
  sym::Expr begin = 0, beginBatch = 0; // the block's first place, and element of the batch
  Value targets, areLost;              // in shared memory: of the block's places
};
} // namespace

LogicalResult cuda::emitScatter(DeviceFrame &frame, kernel::ScatterOp scatter) {
  PlaceScatter(frame, scatter).emit();
  return success();
}
