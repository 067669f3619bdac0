// Writes the function of a kernel.contract for Blackwell.
//
// The first warpgroup brings both operands' parts to places of shared memory as they become empty
// (WarpgroupFeed.h), as on Hopper. The two others have tiles in turns, and each has columns of
// tensor memory for the sums of one. Its first warp asks for the products of the parts that have
// come; places are let go of by the hardware that has read them. The turn goes on when all products
// of a tile are asked for: from then on the other warpgroup's tile is multiplied while this one
// waits for its sums, reads them and writes what the epilogue makes of them (WarpgroupTile.h).
#include "CUDA/Blackwell/TensorMemory.h"
#include "CUDA/Hopper/WarpgroupFeed.h"
#include "CUDA/Hopper/WarpgroupTile.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {

class TensorMemoryEmitter : WarpgroupTile {
public:
  TensorMemoryEmitter(DeviceFrame &frame, kernel::ContractOp op, const WarpgroupPlan &plan,
                      const WarpgroupOperands &operands)
      : WarpgroupTile(frame, op, plan), operands(operands),
        warpOfBlock(emitWarpgroupNumber(frame, (plan.consumers + 1) * warps, warpSize)),
        group(frame.named(warpOfBlock.floorDiv(warps), plan.consumers + 1)),
        inGroup(frame.named(frame.addVariable(frame.thread, frame.numThreads).mod(warpgroupSize),
                            warpgroupSize)),
        tiles(frame, dims, plan, 0), steps(tiles.steps()),
        feed(frame, op, dims, plan, operands, inGroup, 0),
        memory(frame, dims.sumType, plan.consumers * plan.blockN),
        order(frame, plan.consumers, /*arrivals=*/1), ready(frame, plan.consumers, /*arrivals=*/1),
        taken(frame, plan.consumers, warps),
        ring(frame, plan.stages, plan.stageBytes(), WarpgroupFeed::makeFill(plan, operands),
             /*consumers=*/1) {}

  void emit() {
    makeExchange();
    memory.begin();
    emitWarpgroupRoles(
        frame, group, inGroup, /*oneCopies=*/!operands.haveThreads(), plan.registers,
        [&] { feed.emitTiles(ring, tiles); }, [&] { consume(); });
    memory.end();
  }

private:
  void consume() {
    sym::Expr consumer = frame.named(group - 1, plan.consumers);
    mine = frame.emit(consumer);
    other = frame.simplifyAndEmit(1 - consumer);
    sums = memory.sums(frame.simplifyAndEmit(plan.blockN * consumer));
    Value isFirstWarp = emitIsZero(frame, frame.simplifyAndEmit(warpOfBlock.mod(warps)));
    Value rows = ring.memory(frame.constant(0));
    Value columns = frame.gep(rows, b.getI8Type(), frame.constant(feed.lhsBytes()));
    int64_t boxBytes = plan.blockK * lineBytes;
    MatrixDescriptor left(frame, rows, operands.lhs.alongRows, boxBytes, MatrixDescriptor::tcgen05);
    MatrixDescriptor right(frame, columns, operands.rhs.alongRows, boxBytes,
                           MatrixDescriptor::tcgen05);
    tiles.forEach(mine, plan.consumers, [&](const ScheduledTile &tile, Value before) {
      // Of all tiles, or of none.
      Value some = frame.emitLess(0, steps);
      frame.emitIf(some, [&] {
        frame.emitIf(isFirstWarp, [&] { multiply(tile, before, left, right); });
        ready.wait(mine, before);
        memory.fence(NVVM::Tcgen05FenceKind::AFTER_THREAD_SYNC);
      });
      write(tile, some);
    });
  }

  /// The first warp's: asks for a tile's products. One lane does, but all know for which, so that
  /// what they are is in registers that the warp has in common.
  void multiply(const ScheduledTile &tile, Value before, const MatrixDescriptor &left,
                const MatrixDescriptor &right) {
    Value next = arith::AddIOp::create(b, loc, before, frame.constant(1));
    // The first consumer begins.
    order.wait(mine, arith::SubIOp::create(b, loc, next, mine));
    taken.wait(mine, next);
    frame.emitLoop(frame.constant(0), frame.emit(steps), 1, {},
                   [&](Value iv, ValueRange) -> SmallVector<Value> {
                     multiplyStep(arith::AddIOp::create(b, loc, tile.turn, iv), iv, left, right);
                     return {};
                   });
    frame.emitIf(memory.elect(), [&] {
      memory.commit(ready.at(mine));
      // A barrier is not to be waited for while its phase before last may still go on.
      order.arrive(other);
    });
  }

  void multiplyStep(Value turn, Value step, const MatrixDescriptor &left,
                    const MatrixDescriptor &right) {
    ring.waitFull(turn);
    memory.fence(NVVM::Tcgen05FenceKind::AFTER_THREAD_SYNC);
    Value offset = arith::MulIOp::create(
        b, loc, ring.place(turn), frame.constant(plan.stageBytes() / MatrixDescriptor::unit));
    Value adds = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, step, frame.constant(0));
    frame.emitIf(memory.elect(), [&] {
      memory.multiply(sums, left, right, offset, plan.blockN, dims.operandType, plan.blockK, adds);
      memory.commit(ring.emptied(turn));
    });
  }

  /// Writes a tile, 16 rows of each warp at a time. There are no sums unless there are `some` steps
  /// (null: there are).
  void write(const ScheduledTile &tile, Value some) {
    locate();
    constexpr int64_t rowsOfWarp = tensorRows / warps, rowsAtOnce = 16;
    constexpr int64_t count = rowsOfWarp / rowsAtOnce;
    sym::Expr firstOfWarp = rowsOfWarp * frame.named(warp.mod(warps), warps);
    frame.emitLoop(frame.constant(0), frame.constant(count), 1, {},
                   [&](Value iv, ValueRange) -> SmallVector<Value> {
                     sym::Expr part = frame.addVariable(iv, count);
                     Value isLast = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, iv,
                                                          frame.constant(count - 1));
                     sym::Expr firstRow = firstOfWarp + rowsAtOnce * part;
                     writeRows(tile, firstRow, load(firstRow, some, isLast));
                     return {};
                   });
  }

  /// The sums of 16 rows; `isLast`: of all of the tile's in this warp.
  SmallVector<Value> load(sym::Expr firstRow, Value some, Value isLast) {
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(dims.sumType));
    SmallVector<Value> zeros(plan.blockN / 2, zero);
    SmallVector<Value> values = frame.emitWhere(some, zeros, [&] {
      return memory.load(sums, frame.simplifyAndEmit(firstRow), plan.blockN);
    });
    memory.fence(NVVM::Tcgen05FenceKind::BEFORE_THREAD_SYNC);
    // All lanes have loaded theirs, and have read what others have written for them before.
    NVVM::SyncWarpOp::create(b, loc, arith::ConstantIntOp::create(b, loc, -1, 32));
    Value isFirstLane = emitIsZero(frame, frame.emit(lane));
    frame.emitIf(frame.both(some, frame.both(isLast, isFirstLane)), [&] { taken.arrive(mine); });
    return values;
  }

  const WarpgroupOperands &operands;
  /// The block's warps and warpgroups; the threads of one.
  sym::Expr warpOfBlock, group, inGroup;
  TileScheduler tiles;
  sym::Expr steps; // of a tile
  WarpgroupFeed feed;
  TensorMemory memory;
  /// For each warpgroup that has tiles: the other one has passed the turn on; its sums are there;
  /// its warps have read them.
  BarrierArray order, ready, taken;
  StageRing ring;
  /// The number of this one among those, the other's, and the place of its sums.
  Value mine, other, sums;
};

} // namespace

LogicalResult cuda::emitTensorMemoryContract(DeviceFrame &frame, kernel::ContractOp contract) {
  WarpgroupPlan plan(getSchedule<Tcgen05ScheduleAttr>(frame.func));
  auto operands = findWarpgroupOperands(frame.func);
  if (!operands)
    return frame.func.emitError(
        "warpgroups multiply bf16, f16 or f8, summed in f32, or bytes, summed "
        "in i32, of aligned operands that come 16 bytes at a time");
  plan.fit(ContractDims(contract), *operands);
  if (failed(verifyPlan(frame.func, plan, *operands)))
    return failure();
  TensorMemoryEmitter(frame, contract, plan, *operands).emit();
  return success();
}
