#include "TileScheduler.h"
#include "PartialSums.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Tiles of this many rows of tiles come before those of the next: they share operands in the
/// cache.
static constexpr int64_t tileRows = 8;
/// Of a tile that is divided: the fewest steps that a block has, and the most blocks.
static constexpr int64_t minSteps = 8, maxPieces = 16;

//===-- The division ------------------------------------------------------------------------===//

namespace {
/// In steps: of leaving sums to another block, and of adding those of one.
struct SharingCost {
  explicit SharingCost(const WarpgroupPlan &plan) {
    constexpr int64_t productsPerCycle = 2048, operandBytesPerCycle = 40, bytesPerCycle = 64;
    constexpr int64_t latency = 1500;
    int64_t step = std::max(plan.blockM() * plan.blockN * WarpgroupPlan::blockK / productsPerCycle,
                            plan.stageBytes() / operandBytesPerCycle);
    int64_t move = plan.partialBytes() / bytesPerCycle;
    leave = llvm::divideCeil(move + latency, step);
    add = llvm::divideCeil(move, step);
  }
  int64_t leave, add;
};
} // namespace

StreamDivision cuda::divideSteps(const WarpgroupPlan &plan, sym::Expr tiles, sym::Expr steps,
                                 sym::Expr blocks,
                                 function_ref<sym::Expr(sym::Expr, int64_t)> name) {
  using sym::Expr;
  SharingCost sharing(plan);
  // All of them but rounds of whole tiles: at least as many as blocks, if there are as many.
  Expr rounds = name(Expr::max(0, tiles.floorDiv(blocks) - 1), 0);
  Expr divided = name(Expr::max(1, tiles - rounds * blocks), 1);
  Expr units = name(divided * steps, 0);
  Expr most = name(
      Expr::max(1, Expr::min(Expr::min(blocks, maxPieces * divided), units.floorDiv(minSteps))), 1);
  // Where it takes no longer, a tile's blocks have nothing of another tile.
  Expr each = name(Expr::max(1, most.floorDiv(divided)), 1);
  Expr aligned = name(Expr::min(blocks, each * divided), 1);
  Expr fits = Expr::min(1, Expr::max(0, units.ceilDiv(most) - units.ceilDiv(aligned) + 1));
  Expr workers = name(most + fits * (aligned - most), 1);
  Expr cost = name(sharing.leave + sharing.add * workers.ceilDiv(divided), 0);
  Expr saved = divided.ceilDiv(blocks) * steps - units.ceilDiv(workers) - cost;
  Expr pays = name(Expr::min(1, Expr::max(0, saved + 1)), 0);
  return {pays * divided, workers, pays * cost};
}

bool cuda::mayDivideSteps(const WarpgroupPlan &plan, sym::Expr steps,
                          const sym::Assumptions &assumptions) {
  // Less than those of a tile are saved.
  SharingCost sharing(plan);
  return !assumptions.isLessOrEqual(steps, sharing.leave + sharing.add);
}

sym::Expr cuda::countUsefulBlocks(const WarpgroupPlan &plan, sym::Expr tiles, sym::Expr steps,
                                  const sym::Assumptions &assumptions) {
  if (!mayDivideSteps(plan, steps, assumptions))
    return tiles;
  sym::Expr pieces = sym::Expr::max(1, sym::Expr::min(maxPieces, steps.floorDiv(minSteps)));
  return assumptions.simplify(tiles * pieces);
}

//===-- The walk ----------------------------------------------------------------------------===//

TileScheduler::TileScheduler(DeviceFrame &frame, const ContractDims &dims,
                             const WarpgroupPlan &plan)
    : frame(frame), b(frame.builder), loc(frame.loc), dims(dims), plan(plan),
      numSteps(frame.assumptions.simplify(plan.steps(dims))),
      blocksM(frame.assumptions.simplify(dims.m.ceilDiv(plan.blockM()))),
      blocksN(frame.assumptions.simplify(dims.n.ceilDiv(plan.blockN))),
      divides(mayDivideSteps(plan, numSteps, frame.assumptions)) {}

sym::Expr TileScheduler::named(sym::Expr expr, int64_t min) {
  expr = frame.assumptions.simplify(expr);
  if (expr.isConstant() || expr.kind() == sym::Kind::Dim)
    return expr;
  sym::Range range = frame.assumptions.rangeOf(expr);
  range.min = std::max(min, range.min.value_or(min));
  return frame.addVariable(frame.emit(expr), range);
}

Value TileScheduler::forEach(Value first, int64_t stride,
                             function_ref<void(const ScheduledTile &, Value)> body) {
  using sym::Expr;
  Value gridDim = arith::ExtUIOp::create(b, loc, b.getI64Type(),
                                         NVVM::GridDimXOp::create(b, loc, b.getI32Type()));
  Expr blocks = frame.addVariable(gridDim, sym::Range{1, PartialSums::maxBlocks});
  Expr block = frame.addVariable(frame.block, blocks);
  Expr tiles = frame.assumptions.simplify(plan.tiles(dims));
  // Nothing is divided where there are no steps.
  Expr tileSteps = named(Expr::max(1, numSteps), 1);
  Expr divided = 0, begin = 0, end = 0, ends = 0, shared = 0;
  if (divides) {
    StreamDivision division = divideSteps(plan, tiles, numSteps, blocks,
                                          [&](Expr expr, int64_t min) { return named(expr, min); });
    divided = named(division.tiles, 0);
    workers = named(division.blocks, 1);
    units = named(divided * numSteps, 0);
    begin = named((Expr::min(block, workers) * units).floorDiv(workers), 0);
    end = named((Expr::min(block + 1, workers) * units).floorDiv(workers), 0);
    ends = named(end.ceilDiv(tileSteps), 0);
    shared = named(ends - begin.floorDiv(tileSteps), 0);
  }
  Expr whole = named(Expr::max(0, tiles - divided - block).ceilDiv(blocks), 0);
  Expr inDivided = named(end - begin, 0);
  auto loop = scf::ForOp::create(b, loc, first, frame.simplifyAndEmit(shared + whole),
                                 frame.constant(stride), ValueRange{frame.constant(0)});
  Value turns = frame.simplifyAndEmit(inDivided + whole * numSteps);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Expr item = frame.addVariable(loop.getInductionVar(), sym::Range{0, {}});
  Expr ofWhole = item - shared;
  Value tile = frame.simplifyAndEmit(divided + block + blocks * ofWhole);
  Value turn = frame.simplifyAndEmit(inDivided + numSteps * ofWhole);
  Value from = frame.constant(0), to = frame.emit(numSteps), stream;
  if (divides) {
    Value isShared = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                           loop.getInductionVar(), frame.emit(shared));
    auto choose = [&](Value yes, Value no) {
      return arith::SelectOp::create(b, loc, isShared, yes, no).getResult();
    };
    Value number = frame.simplifyAndEmit(ends - 1 - item);
    stream = arith::MulIOp::create(b, loc, number, frame.emit(numSteps));
    Value next = arith::AddIOp::create(b, loc, stream, frame.emit(numSteps));
    next = arith::MinSIOp::create(b, loc, next, frame.emit(end));
    Value last = arith::MaxSIOp::create(b, loc, stream, frame.emit(begin));
    tile = choose(number, tile);
    turn = choose(arith::SubIOp::create(b, loc, frame.emit(end), next), turn);
    from = choose(arith::SubIOp::create(b, loc, last, stream), from);
    to = choose(arith::SubIOp::create(b, loc, next, stream), to);
  }
  ScheduledTile scheduled = locate(frame.addVariable(tile, tiles));
  scheduled.first = from;
  scheduled.end = to;
  scheduled.turn = turn;
  scheduled.stream = stream;
  Value before = loop.getRegionIterArg(0);
  body(scheduled, before);
  scf::YieldOp::create(
      b, loc, ValueRange{arith::AddIOp::create(b, loc, before, frame.constant(1)).getResult()});
  return turns;
}

Value TileScheduler::firstBlock(const ScheduledTile &tile) {
  // The last one that begins there or before: of blocks i with i * units < workers * (step + 1).
  sym::Expr step = frame.addVariable(tile.stream, sym::Range{0, {}});
  return frame.simplifyAndEmit(
      (workers * (step + 1) - 1).floorDiv(named(sym::Expr::max(1, units), 1)));
}

ScheduledTile TileScheduler::locate(sym::Expr tile) {
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
  ScheduledTile located;
  located.part = part;
  located.batch = batch;
  located.firstM = plan.blockM() * frame.addVariable(row, blocksM);
  located.firstN = plan.blockN * frame.addVariable(column, blocksN);
  return located;
}
