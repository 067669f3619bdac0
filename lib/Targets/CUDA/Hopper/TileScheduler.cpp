// Gives tiles of a product to the blocks that stay on the GPU, parts of tiles included.
#include "CUDA/Hopper/TileScheduler.h"
#include "CUDA/Hopper/PartialSums.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Tiles of this many rows of tiles come before those of the next: they share operands in the
/// cache.
static constexpr int64_t tileRows = 8;
/// The fewest steps that a block has of a tile that is divided, and the most blocks.
static constexpr int64_t minPieceSteps = 8, maxPieces = 16, maxSteps = 1 << 20;

//===-- The division ------------------------------------------------------------------------===//

StreamDivision cuda::divideSteps(const WarpgroupPlan &plan, sym::Expr tiles, sym::Expr steps,
                                 sym::Expr blocks,
                                 function_ref<sym::Expr(sym::Expr, sym::Range)> name) {
  using sym::Expr;
  SharingCost sharing = plan.sharing;
  auto isPositive = [](Expr expr) { return Expr::min(1, Expr::max(0, expr)); };
  // Rounds of whole tiles, and what is behind all of these but the last.
  Expr rounds = name(tiles.floorDiv(blocks), {0, {}});
  Expr before = name(Expr::max(0, rounds - 1), {0, {}});
  Expr divided = name(Expr::max(1, tiles - before * blocks), {1, 2 * PartialSums::maxBlocks});
  // Numbers of 32 bits: more steps are not divided.
  Expr few = name(Expr::min(steps, maxSteps), {0, maxSteps});
  Expr units = name(divided * few, {0, {}});
  Expr most = name(Expr::max(1, Expr::min(Expr::min(blocks, maxPieces * divided),
                                          units.floorDiv(minPieceSteps))),
                   {1, PartialSums::maxBlocks});
  Expr mostSteps = name(units.ceilDiv(most), {0, {}});
  // A tile's blocks have nothing of another tile where that takes no longer.
  Expr each = name(most.floorDiv(divided), {0, PartialSums::maxBlocks});
  Expr aligned = name(Expr::min(blocks, Expr::max(1, each) * divided), {1, PartialSums::maxBlocks});
  Expr alignedSteps = name(units.ceilDiv(aligned), {0, {}});
  Expr fits = name(isPositive(mostSteps - alignedSteps + 1), {0, 1});
  Expr workers = name(most + fits * (aligned - most), {1, PartialSums::maxBlocks});
  Expr blockSteps = mostSteps + fits * (alignedSteps - mostSteps);
  // Sums that are added to a tile's, at most.
  Expr others = each + isPositive(workers - each * divided);
  Expr cost = name(sharing.leave + sharing.add * others, {0, {}});
  Expr whole = steps + isPositive(divided - blocks) * steps;
  Expr pays =
      name(isPositive(whole - blockSteps - cost + 1) * isPositive(maxSteps + 1 - steps), {0, 1});
  StreamDivision division;
  division.tiles = pays * divided;
  division.blocks = workers;
  division.cost = pays * cost;
  division.stepsOfBlock = pays * blockSteps;
  division.rounds = before + (1 - pays) * (rounds - before);
  return division;
}

bool cuda::mayDivideSteps(const WarpgroupPlan &plan, sym::Expr steps,
                          const sym::Assumptions &assumptions) {
  // Less than those of a tile are saved.
  return !plan.inTensorMemory &&
         !assumptions.isLessOrEqual(steps, plan.sharing.leave + plan.sharing.add);
}

sym::Expr cuda::countUsefulBlocks(const WarpgroupPlan &plan, sym::Expr tiles, sym::Expr steps,
                                  const sym::Assumptions &assumptions) {
  if (!mayDivideSteps(plan, steps, assumptions))
    return tiles;
  sym::Expr pieces = sym::Expr::max(1, sym::Expr::min(maxPieces, steps.floorDiv(minPieceSteps)));
  return assumptions.simplify(tiles * pieces);
}

//===-- The walk ----------------------------------------------------------------------------===//

TileScheduler::TileScheduler(DeviceFrame &frame, const ContractDims &dims,
                             const WarpgroupPlan &plan, sym::Expr rank)
    : frame(frame), b(frame.builder), loc(frame.loc), dims(dims), plan(plan), rank(rank),
      numSteps(frame.assumptions.simplify(plan.steps(dims))),
      tilesM(frame.assumptions.simplify(plan.tilesM(dims))),
      tilesN(frame.assumptions.simplify(plan.tilesN(dims))),
      divides(mayDivideSteps(plan, numSteps, frame.assumptions)) {}

/// Known to be below 2^32 and not negative.
static bool isNarrow(const sym::Assumptions &assumptions, sym::Expr expr) {
  return assumptions.isNonNegative(expr) && assumptions.isLessOrEqual(expr, UINT32_MAX);
}

sym::Expr TileScheduler::named(sym::Expr expr, sym::Range known) {
  const sym::Assumptions &assumptions = frame.assumptions;
  expr = assumptions.simplify(expr);
  if (expr.isConstant() || expr.kind() == sym::Kind::Dim)
    return expr;
  sym::Range range = assumptions.rangeOf(expr);
  if (known.min)
    range.min = std::max(*known.min, range.min.value_or(*known.min));
  if (known.max)
    range.max = std::min(*known.max, range.max.value_or(*known.max));
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  auto narrow = [&](Value value) { return arith::TruncIOp::create(b, loc, i32, value); };
  auto isDivision = expr.kind() == sym::Kind::FloorDiv &&
                    isNarrow(assumptions, expr.operands()[0]) &&
                    isNarrow(assumptions, expr.operands()[1]);
  if (!isDivision && (!range.min || *range.min < 0 || !range.max || *range.max > UINT32_MAX))
    return frame.addVariable(frame.emit(expr), range);
  // A register each, while others multiply; and several divisions come before the first copy, of
  // which one of 64 bits takes three times as long.
  Value value;
  if (isDivision)
    value = arith::DivUIOp::create(b, loc, narrow(frame.emit(expr.operands()[0])),
                                   narrow(frame.emit(expr.operands()[1])));
  else
    value = narrow(frame.emit(expr));
  return frame.addVariable(arith::ExtUIOp::create(b, loc, i64, value), range);
}

Value TileScheduler::forEach(Value first, int64_t stride,
                             function_ref<void(const ScheduledTile &, Value)> body) {
  using sym::Expr;
  Value gridDim = arith::ExtUIOp::create(b, loc, b.getI64Type(),
                                         NVVM::GridDimXOp::create(b, loc, b.getI32Type()));
  auto ofCluster = [&](Value number) -> Value {
    int64_t size = plan.cluster.count();
    return size == 1 ? number : arith::DivUIOp::create(b, loc, number, frame.constant(size));
  };
  Expr blocks = frame.addVariable(ofCluster(gridDim), sym::Range{1, PartialSums::maxBlocks});
  Expr block = frame.addVariable(ofCluster(frame.block), blocks);
  Expr tiles = frame.assumptions.simplify(plan.tiles(dims));
  constexpr int64_t most = 2 * PartialSums::maxBlocks * maxSteps;
  Expr divided = 0, begin = 0, end = 0, ends = 0, shared = 0;
  Expr rounds = 0;
  if (divides) {
    // Nothing is divided where there are no steps.
    Expr tileSteps = named(Expr::max(1, numSteps), {1, {}});
    StreamDivision division =
        divideSteps(plan, tiles, numSteps, blocks,
                    [&](Expr expr, sym::Range range) { return named(expr, range); });
    divided = named(division.tiles, {0, 2 * PartialSums::maxBlocks});
    rounds = named(division.rounds, {0, {}});
    workers = division.blocks;
    units = named(divided * numSteps, {0, most});
    begin = named((Expr::min(block, workers) * units).floorDiv(workers), {0, most});
    end = named((Expr::min(block + 1, workers) * units).floorDiv(workers), {0, most});
    ends = named(end.ceilDiv(tileSteps), {0, 2 * PartialSums::maxBlocks});
    shared = named(ends - begin.floorDiv(tileSteps), {0, 2 * PartialSums::maxBlocks});
  } else {
    rounds = named(tiles.floorDiv(blocks), {0, {}});
  }
  // The last round of whole tiles may be some blocks' alone.
  Expr rest = Expr::max(0, tiles - divided - rounds * blocks - block);
  Expr whole = named(rounds + Expr::min(1, rest), {0, {}});
  Expr inDivided = named(end - begin, {0, most});
  Expr count = named(shared + whole, {0, INT32_MAX});
  auto narrow = [&](Value value) -> Value {
    return arith::TruncIOp::create(b, loc, b.getI32Type(), value);
  };
  auto loop = scf::ForOp::create(b, loc, narrow(first), narrow(frame.emit(count)),
                                 arith::ConstantIntOp::create(b, loc, stride, 32),
                                 ValueRange{frame.constant(0)});
  Value turns = frame.simplifyAndEmit(inDivided + whole * numSteps);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value number = arith::ExtUIOp::create(b, loc, b.getI64Type(), loop.getInductionVar());
  Expr item = frame.addVariable(number, sym::Range{0, INT32_MAX});
  // The number of whole tiles, in 32 bits: a value that is the same for all takes a register. More
  // tiles or steps of a block than that have no room in any memory.
  Value ofWhole = arith::SubIOp::create(b, loc, loop.getInductionVar(), narrow(frame.emit(shared)));
  auto locateWhole = [&](Value start, Expr step) -> Value {
    Value offset = arith::MulIOp::create(b, loc, ofWhole, narrow(frame.emit(step)));
    Value at = arith::AddIOp::create(b, loc, narrow(start), offset);
    return arith::ExtUIOp::create(b, loc, b.getI64Type(), at);
  };
  Value firstWhole =
      arith::AddIOp::create(b, loc, frame.emit(divided), ofCluster(frame.readBlock()));
  Value tile = locateWhole(firstWhole, blocks);
  Value turn = locateWhole(frame.emit(inDivided), numSteps);
  Value from = frame.constant(0), to = frame.emit(numSteps), stream;
  if (divides) {
    Value isShared =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, number, frame.emit(shared));
    auto choose = [&](Value yes, Value no) {
      return arith::SelectOp::create(b, loc, isShared, yes, no).getResult();
    };
    Value ofDivided = frame.simplifyAndEmit(ends - 1 - item);
    stream = arith::MulIOp::create(b, loc, ofDivided, frame.emit(numSteps));
    Value next = arith::AddIOp::create(b, loc, stream, frame.emit(numSteps));
    next = arith::MinSIOp::create(b, loc, next, frame.emit(end));
    Value last = arith::MaxSIOp::create(b, loc, stream, frame.emit(begin));
    tile = choose(ofDivided, tile);
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
  sym::Expr all = named(sym::Expr::max(1, units), {1, {}});
  sym::Expr cluster = (workers * (step + 1) - 1).floorDiv(all);
  return frame.simplifyAndEmit(plan.cluster.count() * cluster + rank);
}

ScheduledTile TileScheduler::locate(sym::Expr tile) {
  int64_t rowsTogether = tileRows / plan.cluster.m;
  sym::Expr inBatch = tilesM * tilesN, inRows = rowsTogether * tilesN;
  sym::Expr part = 0, inPart = dims.numBatch * inBatch;
  if (!dims.numParts.isConstant(1)) {
    part = frame.named(tile.floorDiv(inPart), dims.numParts);
    tile = frame.named(tile.mod(inPart), inPart);
  }
  sym::Expr batch = frame.named(tile.floorDiv(inBatch), dims.numBatch);
  sym::Expr number = frame.named(tile.mod(inBatch), inBatch);
  sym::Expr rows = frame.named(number.floorDiv(inRows), tilesM.ceilDiv(rowsTogether));
  Value inside = frame.simplifyAndEmit(number.mod(inRows));
  Value count = frame.simplifyAndEmit(sym::Expr::min(tilesM - rowsTogether * rows, rowsTogether));
  Value row = arith::RemUIOp::create(b, loc, inside, count);
  Value column = arith::DivUIOp::create(b, loc, inside, count);
  row = arith::AddIOp::create(b, loc, row, frame.simplifyAndEmit(rowsTogether * rows));
  ScheduledTile located;
  located.part = part;
  located.batch = batch;
  auto first = [&](int64_t size, int64_t blocks, Value at, sym::Expr limit) {
    sym::Expr tile = blocks * frame.addVariable(at, limit);
    return size * (blocks > 1 ? tile + rank : tile);
  };
  located.firstM = first(plan.blockM(), plan.cluster.m, row, tilesM);
  located.firstN = first(plan.blockN, plan.cluster.n, column, tilesN);
  return located;
}
