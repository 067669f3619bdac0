// Writes the function of a kernel.contract for Hopper.
//
// The first warpgroup brings both operands' parts to places of shared memory as they become empty
// (WarpgroupFeed.h). The others multiply (wgmma) what has come: both operands
// are read from shared memory, sums stay in registers. One step's products are still under way when
// the next step's begin, and its place is let go of when they have ended. A block goes on with
// another tile when it has written one; what the copies need of the next has begun by then.
//
// Where tiles have few steps, the warpgroups that multiply have tiles in turns: one multiplies
// while the other writes. They pass on the turn when they have waited for all of their operands,
// since a barrier is not to be waited for while its phase before last may still go on.
//
// What is done with the sums says WarpgroupTile.h.
//
// The first warpgroup gives registers away, of which the sums of the others need more than an equal
// share.
//
// Two blocks may be a cluster, with neighbouring tiles that have one operand's part in common: each
// copies half of it to both. Both go through as many tiles and steps. What one of them tells the
// other is that a place is empty, and that it has come to the end.
#include "CUDA/Hopper/PartialSums.h"
#include "CUDA/Hopper/WarpgroupFeed.h"
#include "CUDA/Hopper/WarpgroupTile.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {

class WarpgroupEmitter : WarpgroupTile {
public:
  WarpgroupEmitter(DeviceFrame &frame, kernel::ContractOp op, const WarpgroupPlan &plan,
                   const WarpgroupOperands &operands)
      : WarpgroupTile(frame, op, plan), operands(operands),
        thread(frame.addVariable(frame.thread, frame.numThreads)),
        group(frame.named(thread.floorDiv(warpgroupSize), plan.consumers + 1)),
        inGroup(frame.named(thread.mod(warpgroupSize), warpgroupSize)), rank(makeRank(frame, plan)),
        tiles(frame, dims, plan, rank), steps(tiles.steps()),
        partials(makePartials(frame, dims.sumType, plan, tiles)),
        feed(frame, op, dims, plan, operands, inGroup, rank), order(makeOrder(frame, plan)),
        ring(frame, plan.stages, plan.stageBytes(), WarpgroupFeed::makeFill(plan, operands),
             plan.sharers() * warps, plan.cluster.count()),
        product(frame, dims.operandType, plan.blockN) {}

  void emit() {
    makeExchange();
    emitWarpgroupRoles(
        frame, group, inGroup, /*oneCopies=*/!operands.haveThreads(), plan.registers,
        [&] { feed.emitTiles(ring, tiles); }, [&] { consume(); });
    if (plan.cluster.count() > 1) {
      setCluster(frame.function, plan.cluster.count());
      // A block's memory stays while another one may still arrive at its barriers.
      frame.emitClusterBarrier();
    }
  }

private:
  static sym::Expr makeRank(DeviceFrame &frame, const WarpgroupPlan &plan) {
    if (plan.cluster.count() == 1)
      return 0;
    OpBuilder &b = frame.builder;
    Value rank = NVVM::ClusterId::create(b, frame.loc, b.getI32Type());
    return frame.addVariable(arith::ExtUIOp::create(b, frame.loc, b.getI64Type(), rank),
                             plan.cluster.count());
  }

  static std::optional<BarrierArray> makeOrder(DeviceFrame &frame, const WarpgroupPlan &plan) {
    if (!plan.inTurns)
      return std::nullopt;
    return BarrierArray(frame, WarpgroupPlan::consumers, warps);
  }

  /// Before the operands' tensor maps.
  static std::optional<PartialSums> makePartials(DeviceFrame &frame, Type sumType,
                                                 const WarpgroupPlan &plan,
                                                 const TileScheduler &tiles) {
    if (!tiles.dividesSteps())
      return std::nullopt;
    // Those that all threads of the block start with.
    constexpr int64_t equalShare = 168;
    return PartialSums(frame, sumType, plan.blockN / 2, plan.sharers() * warpgroupSize,
                       plan.registers ? plan.registers->multiplying : equalShare,
                       plan.cluster.count());
  }

  void consume() {
    consumer = frame.named(group - 1, plan.consumers);
    sharer = plan.inTurns ? sym::Expr(0) : consumer;
    sym::Expr lane = frame.named(inGroup.mod(warpSize), warpSize);
    isFirstLane = releases = emitIsZero(frame, frame.emit(lane));
    if (int64_t blocks = plan.cluster.count(); blocks > 1) {
      releases = frame.emitLess(lane, blocks);
      others = ring.emptyIn(
          arith::TruncIOp::create(b, loc, b.getI32Type(), frame.simplifyAndEmit(lane.mod(blocks))));
    }
    // Each of the operands' boxes has a consumer's rows, and so has a part of an undivided one.
    Value memory = ring.memory(frame.constant(0));
    Value rows =
        frame.gep(memory, b.getI8Type(), frame.simplifyAndEmit(wgmmaM * lineBytes * sharer));
    Value columns = frame.gep(memory, b.getI8Type(), frame.constant(feed.lhsBytes()));
    int64_t boxBytes = plan.blockK * lineBytes;
    MatrixDescriptor left(frame, rows, operands.lhs.alongRows, boxBytes);
    MatrixDescriptor right(frame, columns, operands.rhs.alongRows, boxBytes);
    Value first = plan.inTurns ? frame.emit(consumer) : frame.constant(0);
    tiles.forEach(first, plan.inTurns ? plan.consumers : 1,
                  [&](const ScheduledTile &tile, Value before) {
                    takeTurn(before);
                    Value zero = LLVM::ZeroOp::create(b, loc, product.sumsType());
                    Value some = frame.emitLess(0, steps);
                    Value sums = frame.emitWhere(some, zero, [&]() -> SmallVector<Value> {
                      return {multiply(tile, left, right)};
                    })[0];
                    if (some)
                      frame.emitIf(emitIsZero(frame, frame.emit(steps)), [&] { passTurn(); });
                    finish(tile, sums);
                  });
  }

  /// In turns, the first consumer begins.
  void takeTurn(Value before) {
    if (!order)
      return;
    Value mine = frame.emit(consumer);
    Value parity = arith::AddIOp::create(b, loc, before, frame.constant(1));
    order->wait(mine, arith::SubIOp::create(b, loc, parity, mine));
  }

  void passTurn() {
    if (order)
      frame.emitIf(isFirstLane, [&] { order->arrive(frame.simplifyAndEmit(1 - consumer)); });
  }

  void release(Value turn) {
    frame.emitIf(releases, [&] { ring.release(turn, others); });
  }

  /// A tile's sums.
  Value multiply(const ScheduledTile &tile, const MatrixDescriptor &left,
                 const MatrixDescriptor &right) {
    if (plan.addsSteps(operands))
      return multiplyAlone(tile, left, right);
    ring.waitFull(tile.turn);
    Value first = multiplyStep({}, left, right, tile.turn);
    Value count = arith::SubIOp::create(b, loc, tile.end, tile.first);
    Value last = frame.emitLoop(frame.constant(1), count, 1, first,
                                [&](Value iv, ValueRange values) -> SmallVector<Value> {
                                  Value turn = arith::AddIOp::create(b, loc, tile.turn, iv);
                                  ring.waitFull(turn);
                                  Value next = multiplyStep(values[0], left, right, turn);
                                  NVVM::WgmmaWaitGroupSyncOp::create(b, loc, 1);
                                  release(arith::SubIOp::create(b, loc, turn, frame.constant(1)));
                                  return {next};
                                })[0];
    passTurn();
    last = product.wait(0, last);
    Value end = arith::AddIOp::create(b, loc, tile.turn, count);
    release(arith::SubIOp::create(b, loc, end, frame.constant(1)));
    return last;
  }

  /// The same as sums of what each step gives alone.
  Value multiplyAlone(const ScheduledTile &tile, const MatrixDescriptor &left,
                      const MatrixDescriptor &right) {
    Value count = arith::SubIOp::create(b, loc, tile.end, tile.first);
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(dims.sumType));
    SmallVector<Value> zeros(plan.blockN / 2, zero);
    SmallVector<Value> sums = frame.emitLoop(
        frame.constant(0), count, 1, zeros, [&](Value iv, ValueRange values) -> SmallVector<Value> {
          Value turn = arith::AddIOp::create(b, loc, tile.turn, iv);
          ring.waitFull(turn);
          Value step = product.wait(0, multiplyStep({}, left, right, turn));
          release(turn);
          SmallVector<Value> next;
          for (auto [value, other] : llvm::zip_equal(values, product.unpack(step)))
            next.push_back(arith::AddFOp::create(b, loc, value, other));
          return next;
        });
    passTurn();
    return product.pack(sums);
  }

  /// One step's products, as one group that goes on when this has ended.
  Value multiplyStep(Value sums, const MatrixDescriptor &left, const MatrixDescriptor &right,
                     Value turn) {
    Value offset = arith::MulIOp::create(
        b, loc, ring.place(turn), frame.constant(plan.stageBytes() / MatrixDescriptor::unit));
    return product.multiply(sums, left, offset, right, offset, plan.blockK);
  }

  void finish(const ScheduledTile &tile, Value sums) {
    SmallVector<Value> values = product.unpack(sums);
    locate();
    sym::Expr warpOfTile = plan.inTurns ? frame.named(warp.mod(warps), warps) : warp;
    auto write = [&](ValueRange sums) {
      writeRows(tile, (wgmmaM / warps) * warpOfTile,
                roundsSums() ? ValueRange(product.copy(sums)) : sums);
    };
    if (!partials)
      return write(values);
    partials->begin(warpSize * warpOfTile + lane, warpOfTile, lane);
    Value isLast = compare(arith::CmpIPredicate::eq, tile.end, frame.emit(steps));
    auto either = scf::IfOp::create(b, loc, isLast, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(either.elseBlock());
    partials->leave(values);
    b.setInsertionPointToStart(either.thenBlock());
    Value isShared = compare(arith::CmpIPredicate::ne, tile.first, frame.constant(0));
    write(frame.emitWhere(isShared, values,
                          [&] { return partials->add(tiles.firstBlock(tile), values); }));
  }

  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }

  const WarpgroupOperands &operands;
  /// The block's threads and warpgroups; the threads of one.
  sym::Expr thread, group, inGroup;
  sym::Expr rank; // of the block in its cluster
  TileScheduler tiles;
  sym::Expr steps; // of a tile
  /// Nothing: all tiles are wholes.
  std::optional<PartialSums> partials;
  WarpgroupFeed feed;
  /// A barrier for each warpgroup that multiplies in turns: the other one has passed the turn on.
  std::optional<BarrierArray> order;
  StageRing ring;
  WarpgroupProduct product;
  /// The number of this one among the warpgroups that multiply, and among those that have a tile
  /// together.
  sym::Expr consumer = 0, sharer = 0;
  Value isFirstLane;
  /// The lanes that let go of a place, one in each block of a cluster: null `others` are its own.
  Value releases, others;
};

} // namespace

LogicalResult cuda::emitWarpgroupContract(DeviceFrame &frame, kernel::ContractOp contract) {
  WarpgroupPlan plan(getSchedule<WgmmaScheduleAttr>(frame.func));
  auto operands = findWarpgroupOperands(frame.func);
  if (!operands)
    return frame.func.emitError(
        "warpgroups multiply bf16, f16 or f8, summed in f32, or bytes, summed "
        "in i32, of aligned operands that come 16 bytes at a time");
  plan.fit(ContractDims(contract), *operands);
  if (failed(verifyPlan(frame.func, plan, *operands)))
    return failure();
  WarpgroupEmitter(frame, contract, plan, *operands).emit();
  return success();
}
