// Writes the function of a kernel.contract for Hopper.
//
// The first warpgroup brings both operands' parts to places of shared memory as they become empty
// (WarpgroupFeed.h). The others multiply (wgmma) what has come: both operands
// are read from shared memory, sums stay in registers. One step's products are still under way when
// the next step's begin, and its place is let go of when they have ended. A block goes on with
// another tile when it has written one; what the copies need of the next has begun by then.
//
// The first warpgroup gives registers away, of which the sums of the others need more than an equal
// share.
#include "ContractKernel.h"
#include "WarpgroupFeed.h"
#include "WarpgroupProduct.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {

class WarpgroupEmitter : ContractKernel {
public:
  WarpgroupEmitter(DeviceFrame &frame, kernel::ContractOp op, const WarpgroupPlan &plan,
                   const WarpgroupOperands &operands)
      : ContractKernel(frame, op), plan(plan), operands(operands),
        thread(frame.addVariable(frame.thread, frame.numThreads)),
        group(frame.named(thread.floorDiv(warpgroupSize), plan.consumers + 1)),
        inGroup(frame.named(thread.mod(warpgroupSize), warpgroupSize)),
        feed(frame, op, dims, plan, operands, inGroup),
        ring(frame, plan.stages(), plan.stageBytes(), makeFill(plan, operands),
             plan.consumers * warps),
        product(frame, dims.operandType, plan.blockN) {
    // Past the last part's steps there are zeros.
    steps = frame.assumptions.simplify(dims.part.ceilDiv(WarpgroupPlan::blockK));
    blocksM = frame.assumptions.simplify(dims.m.ceilDiv(plan.blockM()));
    blocksN = frame.assumptions.simplify(dims.n.ceilDiv(plan.blockN));
  }

  void emit() {
    auto roles = scf::IfOp::create(b, loc, emitIsZero(frame.emit(group)), /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(roles.thenBlock());
    bool threads = operands.haveThreads();
    setRegisters(threads ? 104 : 56, NVVM::SetMaxRegisterAction::decrease);
    if (threads)
      produce();
    else
      frame.emitIf(emitIsZero(frame.emit(inGroup)), [&] { produce(); });
    b.setInsertionPointToStart(roles.elseBlock());
    setRegisters(threads ? 200 : 224, NVVM::SetMaxRegisterAction::increase);
    consume();
  }

private:
  static constexpr int64_t warps = warpgroupSize / warpSize;
  /// Tiles of this many rows of tiles come before those of the next: they share operands in the
  /// cache.
  static constexpr int64_t tileRows = 8;

  struct Tile {
    sym::Expr part, batch, firstM, firstN;
    Value turn; // of its first step
  };

  static StageRing::Fill makeFill(const WarpgroupPlan &plan, const WarpgroupOperands &operands) {
    return {plan.boxBytes(operands),
            operands.haveBoxes() + (operands.haveThreads() ? warpgroupSize : 0)};
  }

  Value emitIsZero(Value value) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, value, frame.constant(0));
  }

  /// With a single consumer there are registers enough.
  void setRegisters(uint32_t count, NVVM::SetMaxRegisterAction action) {
    if (plan.consumers > 1)
      NVVM::SetMaxRegisterOp::create(b, loc, count, action);
  }

  /// Gives the number of turns.
  Value forEachTile(function_ref<void(const Tile &)> body) {
    Value numBlocks = arith::ExtUIOp::create(b, loc, b.getI64Type(),
                                             NVVM::GridDimXOp::create(b, loc, b.getI32Type()));
    sym::Expr tiles = plan.tiles(dims);
    auto loop = scf::ForOp::create(b, loc, frame.block, frame.simplifyAndEmit(tiles), numBlocks,
                                   ValueRange(frame.constant(0)));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value turn = loop.getRegionIterArg(0);
    body(locate(frame.addVariable(loop.getInductionVar(), tiles), turn));
    Value next = arith::AddIOp::create(b, loc, turn, frame.emit(steps));
    scf::YieldOp::create(b, loc, next);
    return loop.getResult(0);
  }

  Tile locate(sym::Expr tile, Value turn) {
    sym::Expr inBatch = blocksM * blocksN, inRows = tileRows * blocksN;
    sym::Expr number = 0, inPart = dims.numBatch * inBatch;
    if (op.getPart()) {
      number = frame.named(tile.floorDiv(inPart), dims.numParts);
      tile = frame.named(tile.mod(inPart), inPart);
    }
    sym::Expr batch = frame.named(tile.floorDiv(inBatch), dims.numBatch);
    sym::Expr part = frame.named(tile.mod(inBatch), inBatch);
    sym::Expr rows = frame.named(part.floorDiv(inRows), blocksM.ceilDiv(tileRows));
    Value inside = frame.simplifyAndEmit(part.mod(inRows));
    Value count = frame.simplifyAndEmit(sym::Expr::min(blocksM - tileRows * rows, tileRows));
    Value row = arith::RemUIOp::create(b, loc, inside, count);
    Value column = arith::DivUIOp::create(b, loc, inside, count);
    row = arith::AddIOp::create(b, loc, row, frame.simplifyAndEmit(tileRows * rows));
    return {number, batch, plan.blockM() * frame.addVariable(row, blocksM),
            plan.blockN * frame.addVariable(column, blocksN), turn};
  }

  void produce() {
    Value turns = forEachTile([&](const Tile &tile) {
      feed.emitTile(tile.batch, tile.firstM, tile.firstN, [&] {
        frame.emitLoop(frame.constant(0), frame.emit(steps), 1, {},
                       [&](Value iv, ValueRange) -> SmallVector<Value> {
                         Value turn = arith::AddIOp::create(b, loc, tile.turn, iv);
                         sym::Expr k = dims.part * tile.part +
                                       WarpgroupPlan::blockK * frame.addVariable(iv, steps);
                         feed.emitStep(ring, turn, k);
                         return {};
                       });
      });
    });
    feed.finish(ring, turns);
  }

  void consume() {
    consumer = frame.named(group - 1, plan.consumers);
    sym::Expr lane = frame.named(inGroup.mod(warpSize), warpSize);
    Value isFirstLane = emitIsZero(frame.emit(lane));
    // Each of the operands' boxes has a consumer's rows, and so has a part of an undivided one.
    Value memory = ring.memory(frame.constant(0));
    Value rows =
        frame.gep(memory, b.getI8Type(), frame.simplifyAndEmit(wgmmaM * lineBytes * consumer));
    Value columns = frame.gep(memory, b.getI8Type(), frame.constant(feed.lhsBytes()));
    constexpr int64_t boxBytes = WarpgroupPlan::blockK * lineBytes;
    MatrixDescriptor left(frame, rows, operands.lhs.alongRows, boxBytes);
    MatrixDescriptor right(frame, columns, operands.rhs.alongRows, boxBytes);
    auto release = [&](Value turn) { frame.emitIf(isFirstLane, [&] { ring.release(turn); }); };
    forEachTile([&](const Tile &tile) {
      Value zero = LLVM::ZeroOp::create(b, loc, product.sumsType());
      Value sums = frame.emitWhere(frame.emitLess(0, steps), zero, [&]() -> SmallVector<Value> {
        ring.waitFull(tile.turn);
        Value first = multiply({}, left, right, tile.turn);
        Value last =
            frame.emitLoop(frame.constant(1), frame.emit(steps), 1, first,
                           [&](Value iv, ValueRange values) -> SmallVector<Value> {
                             Value turn = arith::AddIOp::create(b, loc, tile.turn, iv);
                             ring.waitFull(turn);
                             Value next = multiply(values[0], left, right, turn);
                             NVVM::WgmmaWaitGroupSyncOp::create(b, loc, 1);
                             release(arith::SubIOp::create(b, loc, turn, frame.constant(1)));
                             return {next};
                           })[0];
        last = product.wait(0, last);
        release(arith::AddIOp::create(b, loc, tile.turn, frame.simplifyAndEmit(steps - 1)));
        return {last};
      })[0];
      finish(tile, sums);
    });
  }

  /// One step's products, as one group that goes on when this has ended.
  Value multiply(Value sums, const MatrixDescriptor &left, const MatrixDescriptor &right,
                 Value turn) {
    Value offset = arith::MulIOp::create(
        b, loc, ring.place(turn), frame.constant(plan.stageBytes() / MatrixDescriptor::unit));
    return product.multiply(sums, left, offset, right, offset, WarpgroupPlan::blockK);
  }

  void finish(const Tile &tile, Value sums) {
    SmallVector<Value> values = product.unpack(sums);
    // A warp has 16 rows, in which the sums are those of mma.sync.
    sym::Expr warp = frame.named(inGroup.floorDiv(warpSize), warps);
    sym::Expr line = frame.named(inGroup.mod(warpSize).floorDiv(4), 8);
    sym::Expr pair = frame.named(inGroup.mod(4), 4);
    SmallVector<ContractTile::Row> rows;
    for (int64_t below : {0, 1}) {
      ContractTile::Row &row = rows.emplace_back();
      row.neighbours = 2;
      row.row = wgmmaM * consumer + (wgmmaM / warps) * warp + line + 8 * below;
      for (int64_t j = 0; j < plan.blockN / 8; ++j)
        for (int64_t next : {0, 1})
          row.columns.push_back({8 * j + 2 * pair + next, 4 * j + 2 * below + next});
    }
    cpu::BodyEmitter::Scope scope(epilogue);
    epilogue.setLanes(1);
    partNumber = tile.part;
    bind(epilogue, dims.batchGroups, tile.batch, /*isNamed=*/true);
    epilogue.emitAvailable();
    storeRows(rows, values, tile.firstM, tile.firstN);
  }

  WarpgroupPlan plan;
  const WarpgroupOperands &operands;
  sym::Expr thread, group, inGroup;
  WarpgroupFeed feed;
  StageRing ring;
  WarpgroupProduct product;
  sym::Expr steps = 0, blocksM = 0, blocksN = 0, consumer = 0;
};

} // namespace

LogicalResult cuda::emitWarpgroupContract(DeviceFrame &frame, kernel::ContractOp contract) {
  auto operands = findWarpgroupOperands(frame.func);
  auto plan = operands ? readWarpgroupPlan(frame.func.getScheduleAttr(), *operands) : std::nullopt;
  if (!plan)
    return frame.func.emitError("a schedule for warpgroups needs tile = [64, n] and block = "
                                "[m, n, 64], for operands that come 16 bytes at a time");
  WarpgroupEmitter(frame, contract, *plan, *operands).emit();
  // Registers are only given away where a block has the multiprocessor to itself.
  frame.function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                          frame.builder.getI32IntegerAttr(1));
  return success();
}
