#include "CUDA/Hopper/WarpgroupPlan.h"
#include "CUDA/Contract/AsyncCopy.h"
#include "CUDA/Hopper/RowExchange.h"
#include "CUDA/Hopper/TileScheduler.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Shared memory of a block, less what aligns it and the barriers; and the most places of use.
static constexpr int64_t sharedMemory = (227 << 10) - 2048, maxStages = 8;
/// The multiprocessors of an H100.
static constexpr int64_t multiprocessors = 132;
/// Blocks of a cluster. Multiprocessors come in pairs: all of them are in a cluster of two.
static constexpr int64_t maxCluster = 2;
/// Products with less are left to the path of all GPUs.
static constexpr int64_t minRows = 8, minColumns = 32, minSteps = 32;

int64_t WarpgroupPlan::stages() const {
  constexpr int64_t exchange = consumers * (warpgroupSize / warpSize) * RowExchange::warpBytes;
  return std::min(maxStages, (sharedMemory - exchange) / stageBytes());
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
  // An operand with loops of its own takes threads that have nothing else to do.
  if (!isWide(func, dims, side) ||
      llvm::any_of(region.front(), [](Operation &op) { return op.getNumRegions() > 0; }))
    return std::nullopt;
  return WarpgroupOperand{dims.isAlongRows(side), std::nullopt};
}

std::optional<WarpgroupOperands> cuda::findWarpgroupOperands(kernel::FuncOp func) {
  auto op = dyn_cast<kernel::ContractOp>(func.getRoot());
  if (!op || !func.getAligned() || op.getPanel())
    return std::nullopt;
  ContractDims dims(op);
  if (!dims.sumType.isF32() || !(dims.operandType.isF16() || dims.operandType.isBF16()) ||
      isDot(dims) || codegen::estimate(dims.m) < minRows ||
      codegen::estimate(dims.n) < minColumns || codegen::estimate(dims.k) < minSteps ||
      (op.getPart() &&
       !kernel::getAssumptions(&op.getLhs()).isMultipleOf(dims.part, WarpgroupPlan::blockK)))
    return std::nullopt;
  unsigned firstM = op.getBatch().getSizes().size(), firstN = firstM + op.getM().getSizes().size();
  auto lhs = findOperand(func, op, dims, Side::Left, firstM, op.getM().getSizes());
  auto rhs = findOperand(func, op, dims, Side::Right, firstN, op.getN().getSizes());
  if (!lhs || !rhs)
    return std::nullopt;
  bool areOpen = !dims.m.isConstant() || !dims.n.isConstant();
  return WarpgroupOperands{std::move(*lhs), std::move(*rhs), areOpen};
}

static bool isValid(const WarpgroupPlan &plan, const WarpgroupOperands &operands) {
  auto isShared = [](const WarpgroupOperand &operand, int64_t rows, int64_t blocks) {
    return blocks == 1 ||
           (operand.view && TensorLoad::isShareable(operand.alongRows, rows, blocks));
  };
  // There are no registers for finding windows among unknown numbers beside more sums.
  int64_t mostColumns = operands.haveThreads() && operands.areOpen ? 192 : 256;
  return plan.blockN >= 8 && plan.blockN <= mostColumns &&
         plan.blockN % (operands.rhs.alongRows ? lineBytes / 2 : 8) == 0 &&
         plan.cluster.blocks() <= maxCluster &&
         isShared(operands.lhs, plan.blockM(), plan.cluster.n) &&
         isShared(operands.rhs, plan.blockN, plan.cluster.m);
}

/// Cycles in which a warpgroup brings its part of an operand.
static int64_t estimateThreads(kernel::ContractOp op, Side side, int64_t rows) {
  constexpr int64_t cyclesPerCopy = 25, latency = 600;
  int64_t elements = vectorBytes / 2,
          chunks = rows * WarpgroupPlan::blockK / warpgroupSize / elements;
  Region &region = getRegion(op, side);
  if (findCopySource(region, sym::Expr::dim(op.getExtents().size() - 1), elements))
    return chunks * cyclesPerCopy;
  int64_t instructions = llvm::range_size(region.front());
  return latency + chunks * elements * instructions;
}

/// Cycles of a multiprocessor for one step of a tile: those of its tensor cores, or those in which
/// the operands come. The cache gives so many bytes to all multiprocessors, of which `blocks` want
/// some, and one takes so many.
static int64_t estimateStep(const WarpgroupPlan &plan, kernel::ContractOp op,
                            const WarpgroupOperands &operands, int64_t blocks) {
  constexpr int64_t productsPerCycle = 2048, cacheBytesPerCycle = 40 * multiprocessors;
  constexpr int64_t bytesPerCycle = 64, latency = 64, meeting = 16;
  int64_t multiply = plan.blockM() * plan.blockN * WarpgroupPlan::blockK / productsPerCycle;
  int64_t leave = plan.copiedBytes() * std::min(blocks, multiprocessors) / cacheBytesPerCycle;
  int64_t come = std::max(leave, plan.stageBytes() / bytesPerCycle), threads = 0;
  if (!operands.lhs.view)
    threads += estimateThreads(op, Side::Left, plan.blockM());
  if (!operands.rhs.view)
    threads += estimateThreads(op, Side::Right, plan.blockN);
  // The other warpgroup's products fill the gaps.
  return std::max({multiply, come, threads}) + (plan.inTurns ? 0 : latency) +
         (plan.cluster.blocks() > 1 ? meeting : 0);
}

/// Cycles for writing a tile.
static int64_t estimateWriting(const WarpgroupPlan &plan) {
  constexpr int64_t columnsPerCycle = 8;
  return plan.blockN * wgmmaM / columnsPerCycle;
}

static int64_t estimate(const WarpgroupPlan &plan, kernel::ContractOp op, const ContractDims &dims,
                        const WarpgroupOperands &operands) {
  int64_t tiles = codegen::estimate(plan.tiles(dims)), steps = codegen::estimate(plan.steps(dims));
  // Steps are divided among clusters.
  int64_t clusters = multiprocessors / plan.cluster.blocks();
  StreamDivision division =
      divideSteps(plan, tiles, steps, clusters, [](sym::Expr expr, sym::Range) { return expr; });
  int64_t divided = *division.tiles.constant(), blocks = *division.blocks.constant();
  int64_t rounds = llvm::divideCeil(tiles - divided, clusters);
  int64_t busy = plan.cluster.blocks() * std::max(tiles - divided, divided ? blocks : 0);
  int64_t stepsOfBlock =
      rounds * steps + *division.stepsOfBlock.constant() + *division.cost.constant();
  int64_t written = plan.inTurns ? 1 : rounds + llvm::divideCeil(divided, clusters);
  return stepsOfBlock * estimateStep(plan, op, operands, busy) + written * estimateWriting(plan);
}

KernelPlan cuda::planWarpgroupContract(kernel::FuncOp func, const WarpgroupOperands &operands) {
  static constexpr WarpgroupPlan candidates[] = {
      {false, 256}, {false, 192}, {false, 128}, {true, 256}, {true, 192},
      {false, 64},  {true, 128},  {true, 64},   {false, 32}, {true, 32}};
  static constexpr ClusterShape clusters[] = {{1, 1}, {2, 1}, {1, 2}};
  auto op = cast<kernel::ContractOp>(func.getRoot());
  ContractDims dims(op);
  std::optional<WarpgroupPlan> best;
  int64_t least = 0;
  for (WarpgroupPlan plan : candidates)
    for (ClusterShape cluster : clusters) {
      plan.cluster = cluster;
      if (!isValid(plan, operands))
        continue;
      int64_t cycles = estimate(plan, op, dims, operands);
      if (!best || cycles < least) {
        best = plan;
        least = cycles;
      }
    }
  auto schedule = kernel::ScheduleAttr::get(func.getContext(), {wgmmaM, best->blockN},
                                            {best->blockM(), best->blockN, WarpgroupPlan::blockK},
                                            wgmmaK, /*stage=*/false);
  sym::Expr blocks = countUsefulBlocks(*best, best->tiles(dims), best->steps(dims),
                                       kernel::getAssumptions(&op.getLhs()));
  return {schedule, best->cluster.blocks() * blocks, WarpgroupPlan::threads, best->cluster};
}

std::optional<WarpgroupPlan> cuda::readWarpgroupPlan(kernel::FuncOp func,
                                                     const WarpgroupOperands &operands) {
  auto schedule = getSchedule(func);
  auto tile = schedule.getTile(), block = schedule.getBlock();
  if (tile.size() != 2 || block.size() != 3 || tile[0] != wgmmaM || tile[1] != block[1] ||
      (block[0] != wgmmaM && block[0] != WarpgroupPlan::consumers * wgmmaM) ||
      block[2] != WarpgroupPlan::blockK || schedule.getLanes() != wgmmaK)
    return std::nullopt;
  auto cluster = getCluster(func);
  if (!cluster)
    return std::nullopt;
  WarpgroupPlan plan{block[0] == wgmmaM, block[1], *cluster};
  return isValid(plan, operands) ? std::optional(plan) : std::nullopt;
}
