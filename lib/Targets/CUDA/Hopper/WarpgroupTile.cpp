// Runs epilogues of products of warpgroups, and writes what they give.
#include "CUDA/Hopper/WarpgroupTile.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// A warp has 16 rows, in which the sums are those of mma.sync: of chunk `j` of 8 columns two
/// neighbours, in a row and the one 8 below.
static int64_t sumNumber(int64_t j, int64_t below) { return 4 * j + 2 * below; }

void WarpgroupTile::makeExchange() {
  Type type = cast<RankedTensorType>(op.getType()).getElementType();
  if (!type.isF32() && !type.isF16() && !type.isBF16() && !type.isInteger(32))
    return;
  run = vectorBytes / (type.getIntOrFloatBitWidth() / 8);
  onRuns = readsElements(op);
  Type exchanged = onRuns ? dims.sumType : type;
  if (!hasRuns(run) || !RowExchange::isValid(exchanged, plan.blockN))
    return;
  exchange.emplace(frame, exchanged, plan.blockN, run, WarpgroupPlan::consumers * warps);
}

void WarpgroupTile::locate() {
  sym::Expr thread = frame.addVariable(frame.readThread(), frame.numThreads);
  warp = frame.named((thread - warpgroupSize).floorDiv(warpSize), plan.consumers * warps);
  lane = frame.named(thread.mod(warpSize), warpSize);
  line = frame.named(lane.floorDiv(4), 8);
  pair = frame.named(lane.mod(4), 4);
}

bool WarpgroupTile::roundsSums() {
  return llvm::any_of(op.getEpilogue().getArgument(0).getUsers(), [](Operation *user) {
    return isa<arith::TruncFOp>(user) && user->getResult(0).getType().isF16() &&
           llvm::any_of(user->getUsers(), [](Operation *op) { return !isa<kernel::YieldOp>(op); });
  });
}

void WarpgroupTile::writeRows(const ScheduledTile &tile, sym::Expr firstRow, ValueRange sums) {
  codegen::BodyEmitter::Scope scope(epilogue);
  epilogue.setLanes(1);
  partNumber = tile.part;
  bind(epilogue, dims.batchGroups, tile.batch, /*isNamed=*/true);
  epilogue.emitAvailable();
  if (exchange)
    return storeRuns(tile.firstM + firstRow, tile.firstN, sums);
  SmallVector<ContractTile::Row> rows;
  for (int64_t below : {0, 1}) {
    ContractTile::Row &row = rows.emplace_back();
    row.neighbours = 2;
    row.row = firstRow + line + 8 * below;
    for (int64_t j = 0; j < plan.blockN / 8; ++j)
      for (int64_t next : {0, 1})
        row.columns.push_back({8 * j + 2 * pair + next, sumNumber(j, below) + next});
  }
  storeRows(rows, sums, tile.firstM, tile.firstN);
}

void WarpgroupTile::storeRuns(sym::Expr firstM, sym::Expr tileN, ValueRange sums) {
  exchange->begin(warp, lane);
  int64_t piece = exchange->pieceColumns();
  forEachBand(plan.blockN / piece, sums, [&](sym::Expr number, ValueRange ofPiece) {
    sym::Expr firstN = tileN + number * piece;
    for (int64_t j = 0; j < piece / 8; ++j) {
      SmallVector<Value> values[2];
      for (int64_t below : {0, 1})
        llvm::append_range(values[below], ofPiece.slice(sumNumber(j, below), 2));
      if (!onRuns)
        evaluateInPlace(firstM, firstN + 8 * j, values);
      for (int64_t below : {0, 1})
        exchange->put(number, j, below, values[below]);
    }
    exchange->meet();
    SmallVector<SmallVector<Value>> got;
    for (size_t i = 0; i < exchange->runs().size(); ++i)
      got.push_back(exchange->get(number, i));
    for (auto [lineRun, values] : llvm::zip_equal(exchange->runs(), got)) {
      sym::Expr m = firstM + lineRun.row, n = firstN + lineRun.column;
      frame.emitIf(frame.both(frame.emitLess(m, dims.m), frame.emitLess(n, dims.n)), [&] {
        codegen::BodyEmitter::Scope scope(epilogue);
        bind(epilogue, dims.mGroups, frame.named(m, dims.m), /*isNamed=*/true);
        epilogue.emitAvailable();
        storeValues(n, onRuns ? evaluate(n, values) : values);
      });
    }
  });
}

/// Runs the epilogue on a lane's sums of 8 columns. What is outside of the product takes the
/// place of something inside: it is not written.
void WarpgroupTile::evaluateInPlace(sym::Expr firstM, sym::Expr firstN,
                                    SmallVector<Value> (&sums)[2]) {
  auto clamp = [&](sym::Expr value, sym::Expr extent) {
    if (frame.assumptions.isLess(value, extent))
      return frame.named(value, extent);
    return frame.addVariable(arith::MinSIOp::create(b, loc, frame.simplifyAndEmit(value),
                                                    frame.simplifyAndEmit(extent - 1)),
                             extent);
  };
  // `dims.n` is a multiple of runs, which are longer than two.
  sym::Expr inside =
      clamp(frame.assumptions.simplify((firstN + 2 * pair).floorDiv(2)), dims.n.floorDiv(2));
  for (int64_t next : {0, 1}) {
    codegen::BodyEmitter::Scope column(epilogue);
    bind(epilogue, dims.nGroups, 2 * inside + next, /*isNamed=*/false);
    epilogue.emitAvailable();
    for (int64_t below : {0, 1}) {
      codegen::BodyEmitter::Scope row(epilogue);
      bind(epilogue, dims.mGroups, clamp(firstM + line + 8 * below, dims.m), /*isNamed=*/true);
      epilogue.setArgument(0, sums[below][next]);
      sums[below][next] = epilogue.emitYield().front();
    }
  }
}
