#include "TileScheduler.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Tiles of this many rows of tiles come before those of the next: they share operands in the
/// cache.
static constexpr int64_t tileRows = 8;

TileScheduler::TileScheduler(DeviceFrame &frame, const ContractDims &dims,
                             const WarpgroupPlan &plan)
    : frame(frame), b(frame.builder), loc(frame.loc), dims(dims), plan(plan),
      // Past the last part's steps there are zeros.
      numSteps(frame.assumptions.simplify(dims.part.ceilDiv(WarpgroupPlan::blockK))),
      blocksM(frame.assumptions.simplify(dims.m.ceilDiv(plan.blockM()))),
      blocksN(frame.assumptions.simplify(dims.n.ceilDiv(plan.blockN))) {}

Value TileScheduler::forEach(Value first, int64_t stride,
                             function_ref<void(const ScheduledTile &, Value)> body) {
  Value numBlocks = arith::ExtUIOp::create(b, loc, b.getI64Type(),
                                           NVVM::GridDimXOp::create(b, loc, b.getI32Type()));
  sym::Expr tiles = plan.tiles(dims);
  Value begin =
      arith::AddIOp::create(b, loc, frame.block, arith::MulIOp::create(b, loc, first, numBlocks));
  Value step = arith::MulIOp::create(b, loc, numBlocks, frame.constant(stride));
  Value turn = arith::MulIOp::create(b, loc, first, frame.emit(numSteps));
  auto loop = scf::ForOp::create(b, loc, begin, frame.simplifyAndEmit(tiles), step,
                                 ValueRange{turn, frame.constant(0)});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  turn = loop.getRegionIterArg(0);
  Value before = loop.getRegionIterArg(1);
  body(locate(frame.addVariable(loop.getInductionVar(), tiles), turn), before);
  Value next = arith::AddIOp::create(b, loc, turn, frame.simplifyAndEmit(stride * numSteps));
  scf::YieldOp::create(b, loc,
                       ValueRange{next, arith::AddIOp::create(b, loc, before, frame.constant(1))});
  return loop.getResult(0);
}

ScheduledTile TileScheduler::locate(sym::Expr tile, Value turn) {
  sym::Expr inBatch = blocksM * blocksN, inRows = tileRows * blocksN;
  sym::Expr part = 0, inPart = dims.numBatch * inBatch;
  if (!dims.numParts.isConstant(1)) {
    part = frame.named(tile.floorDiv(inPart), dims.numParts);
    tile = frame.named(tile.mod(inPart), inPart);
  }
  sym::Expr batch = frame.named(tile.floorDiv(inBatch), dims.numBatch);
  sym::Expr number = frame.named(tile.mod(inBatch), inBatch);
  sym::Expr rows = frame.named(number.floorDiv(inRows), blocksM.ceilDiv(tileRows));
  Value inside = frame.simplifyAndEmit(number.mod(inRows));
  Value count = frame.simplifyAndEmit(sym::Expr::min(blocksM - tileRows * rows, tileRows));
  Value row = arith::RemUIOp::create(b, loc, inside, count);
  Value column = arith::DivUIOp::create(b, loc, inside, count);
  row = arith::AddIOp::create(b, loc, row, frame.simplifyAndEmit(tileRows * rows));
  return {part, batch, plan.blockM() * frame.addVariable(row, blocksM),
          plan.blockN * frame.addVariable(column, blocksN), turn};
}
