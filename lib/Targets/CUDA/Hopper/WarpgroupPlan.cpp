// The products that warpgroups multiply, and their tiles.
#include "CUDA/Hopper/WarpgroupPlan.h"
#include "CUDA/Contract/AsyncCopy.h"
#include "CUDA/Contract/ContractKernel.h"
#include "CUDA/Hopper/RowExchange.h"
#include "CUDA/Hopper/TileScheduler.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "cuda-specialize-kernels"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// The most places of use in tensor memory's kernels.
static constexpr int64_t maxTensorStages = 8;
/// Steps as which dividing a tile counts that is never to be divided.
static constexpr int64_t never = 1 << 16;
/// Products with less are left to the path of all GPUs.
static constexpr int64_t minRows = 8, minColumns = 32, minSteps = 32;

TargetAttr cuda::getVariantTarget(kernel::FuncOp func, unsigned architecture) {
  std::string name = "sm_" + std::to_string(architecture);
  TargetAttr target = getTarget(func), known = getTarget(func.getContext(), name);
  bool runsVariants = target.getArch() == name && target.getShared() >= known.getShared();
  return runsVariants ? target : known;
}

static TargetAttr getTargetOf(kernel::FuncOp func, const WarpgroupPlan &plan) {
  return getVariantTarget(func, plan.inTensorMemory ? blackwell : hopper);
}

/// Places that there is room for.
static int64_t countTileStages(const WarpgroupPlan &plan, TargetAttr target) {
  constexpr int64_t warps = WarpgroupPlan::consumers * (warpgroupSize / warpSize);
  constexpr int64_t exchange = warps * RowExchange::warpBytes;
  int64_t most = plan.inTensorMemory ? maxTensorStages : WgmmaScheduleAttr::maxStages;
  return std::min(most, (target.getShared() - overheadBytes - exchange) / plan.stageBytes());
}

void WarpgroupPlan::fit(const ContractDims &dims, const WarpgroupOperands &operands) {
  blockK = dims.elementsOf(lineBytes);
  auto rows = dims.m.constant();
  if (inTensorMemory || !rows || !operands.lhs.view || operands.lhs.alongRows)
    return;
  // Tensor cores read the rest of the place instead of rows: nobody writes it meanwhile.
  int64_t least = std::max(*rows, blockM() - blockN);
  // Each block of a cluster copies whole patterns.
  constexpr int64_t patternRows = patternBytes / lineBytes;
  leftRows =
      std::min(blockM(), static_cast<int64_t>(llvm::alignTo(least, patternRows * cluster.n)));
}

/// One thread that copies boxes needs few. Threads that find windows need more than what is left by
/// many sums: with few of these all keep their share.
static std::optional<WarpgroupRegisters> chooseRegisters(const WarpgroupPlan &plan,
                                                         const WarpgroupOperands &operands) {
  constexpr int64_t manyColumns = 128;
  if (!operands.haveThreads())
    return WarpgroupRegisters{56, 224};
  if (plan.blockN > manyColumns)
    return operands.areOpen ? WarpgroupRegisters{152, 176} : WarpgroupRegisters{120, 192};
  return std::nullopt;
}

static Region &getRegion(kernel::ContractOp op, Side side) {
  return side == Side::Left ? op.getLhs() : op.getRhs();
}

static std::optional<WarpgroupOperand> findOperand(kernel::FuncOp func, kernel::ContractOp op,
                                                   const ContractDims &dims, Side side,
                                                   unsigned firstRow, ArrayRef<sym::Expr> rows) {
  Region &region = getRegion(op, side);
  if (auto view = findTensorView(op, region, firstRow, rows)) {
    bool alongRows = view->alongRows;
    return WarpgroupOperand{alongRows, std::move(view)};
  }
  // Threads have no registers of floats of eight bits. An operand with loops of its own takes threads that have nothing else to do.
  if (dims.areFloat8() || !isWide(func, dims, side) ||
      llvm::any_of(region.front(), [](Operation &op) { return op.getNumRegions() > 0; }))
    return std::nullopt;
  return WarpgroupOperand{dims.isAlongRows(side), std::nullopt};
}

/// Null if the product is one that warpgroups multiply, if they can read its operands.
static const char *whyNotWarpgroups(kernel::FuncOp func, kernel::ContractOp op,
                                    const ContractDims &dims) {
  if (!func.getAligned())
    return "a buffer may begin where vectors do not";
  if (op.getPanel())
    return "its right operand is packed for vectors";
  bool areFloats = dims.operandType.isF16() || dims.operandType.isBF16() || dims.areFloat8();
  if (!(areFloats && dims.sumType.isF32()) && !(dims.areBytes() && dims.sumType.isInteger(32)))
    return "it is no product of f16, bf16 or f8 with sums of f32, nor of bytes with sums of i32";
  if (dims.elementsOf(lineBytes) == lineBytes && (dims.lhsAlongM || dims.rhsAlongN))
    return "the steps of its bytes do not lie side by side";
  if (isDot(dims) || codegen::estimate(dims.m) < minRows ||
      codegen::estimate(dims.n) < minColumns || codegen::estimate(dims.k) < minSteps)
    return "it has too few rows, columns or steps";
  if (waitsForSmallIntegers(func, dims))
    return "it waits for small integers, which other kernels copy further ahead";
  if (op.getPart() &&
      !kernel::getAssumptions(&op.getLhs()).isMultipleOf(dims.part, dims.elementsOf(lineBytes)))
    return "its parts are not whole blocks of steps";
  return nullptr;
}

std::optional<WarpgroupOperands> cuda::findWarpgroupOperands(kernel::FuncOp func,
                                                             const char *&reason) {
  auto op = dyn_cast<kernel::ContractOp>(func.getRoot());
  if (!op)
    return std::nullopt;
  ContractDims dims(op);
  if ((reason = whyNotWarpgroups(func, op, dims)))
    return std::nullopt;
  unsigned firstM = op.getBatch().getSizes().size(), firstN = firstM + op.getM().getSizes().size();
  auto lhs = findOperand(func, op, dims, Side::Left, firstM, op.getM().getSizes());
  auto rhs = findOperand(func, op, dims, Side::Right, firstN, op.getN().getSizes());
  if (!lhs || !rhs) {
    reason = lhs ? "its right operand does not come 16 bytes at a time"
                 : "its left operand does not come 16 bytes at a time";
    return std::nullopt;
  }
  bool areOpen = !dims.m.isConstant() || !dims.n.isConstant();
  return WarpgroupOperands{std::move(*lhs), std::move(*rhs), areOpen, readsElements(op),
                           dims.areFloat8()};
}

/// The columns of a tile: there are no registers for more sums beside those of a step, or beside
/// finding windows among unknown numbers.
static int64_t findMostColumns(const WarpgroupPlan &plan, const WarpgroupOperands &operands) {
  if (plan.addsSteps(operands))
    return 128;
  return operands.haveThreads() && operands.areOpen ? 192 : 256;
}

/// Columns that a tile has a multiple of.
static int64_t findColumnStep(const WarpgroupPlan &plan, const WarpgroupOperands &operands) {
  // The instructions take 8 more of two bytes, 16 of one.
  return operands.rhs.alongRows ? plan.blockK : plan.blockK / 8;
}

/// The tiles that blocks of a cluster share come in boxes that can be shared out.
static bool isShareable(const WarpgroupPlan &plan, const WarpgroupOperands &operands) {
  auto isShared = [](const WarpgroupOperand &operand, int64_t rows, int64_t blocks) {
    return blocks == 1 ||
           (operand.view && TensorLoad::isShareable(operand.alongRows, rows, blocks));
  };
  return isShared(operands.lhs, plan.leftRows, plan.cluster.n) &&
         isShared(operands.rhs, plan.blockN, plan.cluster.m);
}

static bool isValid(const WarpgroupPlan &plan, const WarpgroupOperands &operands) {
  return plan.blockN <= findMostColumns(plan, operands) &&
         plan.blockN % findColumnStep(plan, operands) == 0 && isShareable(plan, operands);
}

LogicalResult cuda::verifyPlan(kernel::FuncOp func, const WarpgroupPlan &plan,
                               const WarpgroupOperands &operands) {
  if (plan.blockN > findMostColumns(plan, operands) || plan.blockN % findColumnStep(plan, operands))
    return func.emitError("tiles of n = ")
           << plan.blockN << " columns, which have to be a multiple of "
           << findColumnStep(plan, operands) << " up to " << findMostColumns(plan, operands)
           << " for these operands";
  if (!isShareable(plan, operands))
    return func.emitError("a cluster = ")
           << plan.cluster << ", whose blocks share an operand that does not come in boxes which "
           << "can be shared out";
  int64_t most = countTileStages(plan, getTargetOf(func, plan));
  if (plan.stages > most)
    return func.emitError("stages = ")
           << plan.stages << ", of which shared memory has room for " << most;
  return success();
}

/// Cycles in which a warpgroup brings its part of an operand.
static int64_t estimateThreads(kernel::ContractOp op, Side side, int64_t rows, TargetAttr target) {
  int64_t elements = ContractDims(op).elementsOf(vectorBytes),
          chunks = rows * lineBytes / warpgroupSize / vectorBytes;
  Region &region = getRegion(op, side);
  if (findCopySource(region, sym::Expr::dim(op.getExtents().size() - 1), elements))
    return chunks * target.getCopyCost();
  int64_t instructions = llvm::range_size(region.front());
  return target.getLoadLatency() + chunks * elements * instructions;
}

/// Products of two bytes that take as long as those of a tile's step: bytes are multiplied twice as
/// fast.
static int64_t countProducts(const WarpgroupPlan &plan) {
  return plan.blockM() * plan.blockN * lineBytes / 2;
}

/// Latencies of memory after which a place that has been let go of is full again: half of the 2.2 us
/// that eight places have taken on an H200 with memory busy.
static constexpr int64_t placeLatency = 3;
/// Cycles of a step in a cluster, whose blocks let go of places together, at least: 64 x 64 in twelve
/// places has taken 500 on an H200, where eight places of 64 x 128 take no longer.
static constexpr int64_t clusterStep = 400;

/// Cycles of a multiprocessor for one step of a tile: those of its tensor cores, or those in which
/// the operands come: `blocks` multiprocessors want some of what the cache gives.
static int64_t estimateStep(const WarpgroupPlan &plan, kernel::ContractOp op,
                            const WarpgroupOperands &operands, TargetAttr target, int64_t blocks) {
  ContractDims dims(op);
  int64_t multiprocessors = target.getMultiprocessors();
  int64_t cacheBytesPerCycle = target.getCacheRate() * multiprocessors;
  int64_t multiply = countProducts(plan) / target.getProducts();
  // A warpgroup waits for operands, asks for products and lets go of a place, whatever their size.
  int64_t ask = plan.cluster.count() > 1 ? clusterStep : 2 * target.getProductLatency();
  // Rows outside of the product are not read.
  int64_t outside = std::max(int64_t{0}, plan.leftRows - codegen::estimate(dims.m));
  int64_t copied = plan.copiedBytes() - outside / plan.cluster.n * lineBytes;
  int64_t leave = copied * std::min(blocks, multiprocessors) / cacheBytesPerCycle;
  // A place is full again when its products have ended, and then the next copy has come.
  int64_t again = placeLatency * target.getLoadLatency() / plan.stages;
  int64_t come = std::max({leave, again, plan.stageBytes() / target.getCopyRate()}), threads = 0;
  if (!operands.lhs.view)
    threads += estimateThreads(op, Side::Left, plan.blockM(), target);
  if (!operands.rhs.view)
    threads += estimateThreads(op, Side::Right, plan.blockN, target);
  // The other warpgroup's products fill the gaps.
  return std::max({multiply, ask, come, threads}) +
         (plan.inTurns ? 0 : target.getProductLatency()) +
         (plan.cluster.count() > 1 ? target.getMeeting() : 0);
}

/// Beginning and ending clusters, in meetings of a step.
static constexpr int64_t clusterMeetings = 8;

/// Writing an element takes this many times as long where another one is read for it: a warpgroup
/// waits for those of a residual. On an H200 one that has 64 x 128 alone has taken 1.1 us longer than
/// two that share them.
static constexpr int64_t readingCost = 3;

/// Cycles for writing a tile.
static int64_t estimateWriting(const WarpgroupPlan &plan, const WarpgroupOperands &operands,
                               TargetAttr target) {
  return plan.blockN * plan.groupRows() / target.getWriteRate() *
         (operands.readResidual ? readingCost : 1);
}

/// Cycles in which memory gives `blocks` multiprocessors the operands and takes the result. Windows
/// overlap in memory: they do not count.
static int64_t estimateMemory(const ContractDims &dims, const WarpgroupOperands &operands,
                              TargetAttr target, int64_t blocks) {
  sym::Expr elements = 0;
  if (operands.lhs.view)
    elements = elements + dims.m * dims.k;
  if (operands.rhs.view)
    elements = elements + dims.n * dims.k;
  int64_t resultBytes = dims.numParts.isConstant(1) ? 2 : 4;
  int64_t elementBytes = vectorBytes / dims.elementsOf(vectorBytes);
  sym::Expr bytes = elementBytes * elements + resultBytes * dims.numParts * dims.m * dims.n;
  int64_t cycles = codegen::estimate(dims.numBatch * bytes) / target.getMemoryRate();
  // Three quarters of the multiprocessors are taken to keep memory busy.
  int64_t enough = target.getMultiprocessors() * 3 / 4;
  return cycles * std::max(enough, blocks) / blocks;
}

namespace {
/// The cycles that a product takes, and whether those of memory are most of them, with all tiles
/// whole.
struct Estimate {
  int64_t cycles;
  bool isMemory;
};
} // namespace

static Estimate estimate(const WarpgroupPlan &plan, kernel::ContractOp op, const ContractDims &dims,
                         const WarpgroupOperands &operands, TargetAttr target) {
  int64_t tiles = codegen::estimate(plan.tiles(dims)), steps = codegen::estimate(plan.steps(dims));
  // Steps are divided among clusters.
  int64_t clusters = target.getMultiprocessors() / plan.cluster.count();
  StreamDivision division;
  if (!plan.inTensorMemory)
    division =
        divideSteps(plan, tiles, steps, clusters, [](sym::Expr expr, sym::Range) { return expr; });
  int64_t divided = *division.tiles.constant(), blocks = *division.blocks.constant();
  int64_t rounds = llvm::divideCeil(tiles - divided, clusters);
  int64_t busy = plan.cluster.count() * std::max(tiles - divided, divided ? blocks : 0);
  int64_t written = plan.inTurns ? 1 : rounds + llvm::divideCeil(divided, clusters);
  int64_t step = estimateStep(plan, op, operands, target, busy);
  int64_t multiply = (rounds * steps + *division.stepsOfBlock.constant()) * step +
                     written * estimateWriting(plan, operands, target),
          memory =
              estimateMemory(dims, operands, target, std::min(busy, target.getMultiprocessors()));
  // They overlap, writing as well, but not at the beginning and where some blocks have less to do.
  constexpr int64_t overlap = 8;
  int64_t cycles = std::max(multiply, memory) + std::min(multiply, memory) / overlap +
                   *division.cost.constant() * step;
  if (plan.cluster.count() > 1)
    cycles += clusterMeetings * target.getMeeting();
  return {cycles, divided == 0 && memory >= multiply};
}

static SharingCost estimateSharing(const WarpgroupPlan &plan, TargetAttr target) {
  int64_t step = std::max(countProducts(plan) / target.getProducts(),
                          plan.copiedBytes() / target.getCacheRate());
  int64_t move = plan.partialBytes() / target.getCopyRate();
  return {static_cast<int64_t>(llvm::divideCeil(move + target.getShareLatency(), step)),
          static_cast<int64_t>(llvm::divideCeil(move + target.getLoadLatency(), step))};
}

template <typename Schedule>
static Schedule makeSchedule(MLIRContext *context, const WarpgroupPlan &plan) {
  if constexpr (std::is_same_v<Schedule, Tcgen05ScheduleAttr>)
    return Schedule::get(context, plan.blockN, plan.stages, plan.registers);
  else
    return Schedule::get(context, plan.blockM(), plan.blockN, plan.stages, plan.registers,
                         plan.cluster, plan.sharing);
}

namespace {
/// A plan, and the cycles that it is estimated to take.
struct EstimatedPlan {
  int64_t cycles;
  WarpgroupPlan plan;
};
} // namespace

static constexpr WarpgroupPlan hopperTiles[] = {
    {false, 256}, {false, 192}, {false, 128}, {true, 256}, {true, 192},
    {false, 64},  {true, 128},  {true, 64},   {false, 32}, {true, 32}};
// Multiprocessors come in pairs: all of them are in a cluster of two.
static constexpr TileShape hopperClusters[] = {{1, 1}, {2, 1}, {1, 2}};
static constexpr WarpgroupPlan blackwellTiles[] = {
    {true, 256, true}, {true, 192, true}, {true, 128, true}, {true, 64, true}, {true, 32, true}};

/// All that these operands may have of these tiles, complete but for the places and registers of
/// most: the fewest cycles first.
static SmallVector<EstimatedPlan> listPlans(kernel::FuncOp func, const WarpgroupOperands &operands,
                                            ArrayRef<WarpgroupPlan> tiles,
                                            ArrayRef<TileShape> clusters) {
  auto op = cast<kernel::ContractOp>(func.getRoot());
  TargetAttr target = getTargetOf(func, tiles.front());
  ContractDims dims(op);
  SmallVector<EstimatedPlan> plans;
  for (WarpgroupPlan plan : tiles)
    for (TileShape cluster : clusters) {
      plan.cluster = cluster;
      plan.leftRows = plan.blockM();
      plan.fit(dims, operands);
      if (!isValid(plan, operands))
        continue;
      plan.sharing = estimateSharing(plan, target);
      plan.stages = countTileStages(plan, target);
      plan.registers = chooseRegisters(plan, operands);
      int64_t cycles = estimate(plan, op, dims, operands, target).cycles;
      // More blocks gain nothing where memory is the limit, and without flags none are set to zero.
      bool isKnown = plan.tiles(dims).isConstant() && plan.steps(dims).isConstant();
      WarpgroupPlan whole = plan;
      whole.sharing = {never, never};
      auto [wholeCycles, isMemoryOfWhole] = estimate(whole, op, dims, operands, target);
      if (!plan.inTensorMemory && isKnown && isMemoryOfWhole && wholeCycles <= cycles) {
        plan = whole;
        cycles = wholeCycles;
      }
      LDBG() << "kernel @" << func.getSymName() << ": tiles of " << plan.blockM() << " x "
             << plan.blockN << ", clusters of " << cluster.m << " x " << cluster.n << ": " << cycles
             << " cycles";
      auto isSlower = [&](const EstimatedPlan &other) { return cycles < other.cycles; };
      plans.insert(llvm::find_if(plans, isSlower), {cycles, plan});
    }
  return plans;
}

/// Null `given`: with the best of these tiles.
template <typename Schedule>
static FailureOr<KernelPlan> planWith(kernel::FuncOp func, const WarpgroupOperands &operands,
                                      Schedule given, ArrayRef<WarpgroupPlan> tiles,
                                      ArrayRef<TileShape> clusters) {
  auto op = cast<kernel::ContractOp>(func.getRoot());
  ContractDims dims(op);
  std::optional<EstimatedPlan> best;
  if (!given)
    best = listPlans(func, operands, tiles, clusters).front();
  WarpgroupPlan plan = given ? WarpgroupPlan(given) : best->plan;
  if (given) {
    plan.fit(dims, operands);
    if (failed(verifyPlan(func, plan, operands)))
      return failure();
  }
  Schedule schedule = given ? given : makeSchedule<Schedule>(func.getContext(), plan);
  sym::Expr blocks = countUsefulBlocks(plan, plan.tiles(dims), plan.steps(dims),
                                       kernel::getAssumptions(&op.getLhs()));
  KernelPlan made = {schedule, plan.cluster.count() * blocks, schedule.getThreads(), givenReason};
  if (best) {
    made.reason = "of all tiles these take the fewest cycles";
    made.cycles = best->cycles;
  }
  return made;
}

FailureOr<KernelPlan> cuda::planVariantWith(kernel::FuncOp func, const WarpgroupOperands &operands,
                                            WgmmaScheduleAttr given) {
  return planWith(func, operands, given, hopperTiles, hopperClusters);
}

FailureOr<KernelPlan> cuda::planVariantWith(kernel::FuncOp func, const WarpgroupOperands &operands,
                                            Tcgen05ScheduleAttr given) {
  return planWith(func, operands, given, blackwellTiles, TileShape());
}

void cuda::addWarpgroupCandidates(kernel::FuncOp func, const WarpgroupOperands &operands,
                                  WgmmaScheduleAttr base, Candidates &candidates) {
  auto add = [&](WarpgroupPlan plan) {
    candidates.add<WgmmaScheduleAttr>(plan.blockM(), plan.blockN, plan.stages, plan.registers,
                                      plan.cluster, plan.sharing);
  };
  // Tiles divided among blocks in all cases that fill a round, and in none.
  for (SharingCost sharing : {SharingCost{never, never}, SharingCost{0, 0}}) {
    WarpgroupPlan plan(base);
    plan.sharing = sharing;
    add(plan);
  }
  size_t tried = 0;
  for (auto &[cycles, plan] : listPlans(func, operands, hopperTiles, hopperClusters)) {
    add(plan);
    // Fewer places leave room for another block's shared memory.
    if (++tried <= 3 && plan.stages > 3) {
      WarpgroupPlan fewer = plan;
      fewer.stages = plan.stages - 1;
      add(fewer);
    }
  }
}
