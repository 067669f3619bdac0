// How a contract is cut into tiles, blocks and tasks.
//
// Tile. With two vectors of columns, 12 rows keep 24 accumulators (`tile_sums`), as fast as 14 on
// Zen 5 and kinder to caches when rows are 4096 bytes apart. Few rows (a product of a matrix and a vector)
// make wide tiles instead, since then the right operand is what has to stream. A tile takes the
// rows of two axes if the inner one is short (7x7 images).
//
// Tasks. `task_time` each, at most `max_tasks`: enough for many threads, few enough that starting
// them does not count. Cutting columns leaves every right-hand panel to one task; rows are cut when
// there are more of them, or when a staged left operand would be copied again by every column
// block. Rows of a number that is not known are never cut finely: each block reads all of its
// columns of the right operand, which a small number of rows would have read once.
#include "CPU/Contract/ContractStaging.h"
#include "kiln/Targets/CPU/ContractLayout.h"
#include "kiln/Targets/CPU/KernelEmitters.h"
#include "kiln/Targets/CPU/Microkernel.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

static int64_t estimate(ArrayRef<sym::Expr> sizes) {
  int64_t product = 1;
  for (sym::Expr size : sizes)
    if (llvm::MulOverflow(product, std::max<int64_t>(codegen::estimate(size), 1), product))
      return int64_t(1) << 40;
  return product;
}

/// Tallest tile worth having; see the measurements above.
static int64_t chooseRows(const ContractLayout &layout, const CPUInfo &target) {
  int64_t most = maxTileRows(target, layout.vectors);
  if (layout.vectors == 1)
    return std::min(most, target.tileSums);
  // Short image rows (7, 14, 28 …) divide by 14.
  if (layout.vectors == 2 && (layout.rows.size() == 1 || !layout.rows.back().extent.isConstant()))
    return std::min(most, target.tileSums / 2);
  return most;
}

/// Cuts the rows into tiles of at most `maxRows`.
static void chooseTile(ContractLayout &layout, int64_t maxRows, const CPUInfo &target) {
  unsigned axes = layout.numBlockAxes();
  std::optional<int64_t> inner = layout.rows.back().extent.constant();
  int64_t tileAxes = axes > 1 && inner && *inner > 0 && *inner * 2 <= maxRows ? 2 : 1;
  sym::Expr extent = layout.rows[layout.rows.size() - tileAxes].extent;
  std::optional<int64_t> steps = extent.constant();
  if (!steps && tileAxes == 1)
    maxRows = std::min(maxRows, target.openTile);
  else if (!steps)
    maxRows = std::min(maxRows, target.openTile * *inner);
  bool isShort = steps ? *steps <= target.longAxis
                       : layout.lhs == LeftOperand::Direct && layout.sumExtent().isConstant();
  bool isBlockOutside = tileAxes == 1 && axes > 1 && isShort;
  layout.setTile(maxRows, tileAxes, isBlockOutside ? 2 : tileAxes);
}

static double estimateSeconds(const ContractLayout &layout, int64_t m, int64_t n, int64_t k,
                              int64_t batch, int64_t bytes, const CPUInfo &target) {
  double flops = 2.0 * double(m) * double(n) * double(k) * double(batch);
  // Every product loads both of its operands, and the copy is not small beside so short a sum.
  if (layout.depthwise)
    flops *= 3;
  double flopRate = 2 * double(target.fmaUnits) * double(layout.lanes) * target.hertz();
  return std::max(flops / flopRate, double(n) * double(k) * double(batch) * double(bytes) /
                                        target.memoryBytesPerSecond());
}

/// The epilogue is done in memory if it is long, or if the sum is cut.
static bool isEpilogueInMemory(const ContractLayout &layout, const CPUInfo &target) {
  if (!layout.numSumBlocks().isConstant(1))
    return true;
  kernel::BodyCost cost = kernel::getCost(kernel::ContractOp(layout.op).getEpilogue());
  // Once for each accumulator: code for a hundred exponentials is not worth its size.
  int64_t accumulators = layout.maxTileRows() * layout.vectors;
  return accumulators * (cost.arithmetic + cost.reads + 20 * (cost.transcendental + cost.gathers)) >
             target.epilogueOps ||
         cost.reduces;
}

/// The cost of sharing tiles' code does not count beside a long sum, and there is one microkernel
/// less.
static bool doTilesShareCode(const ContractLayout &layout, const CPUInfo &target) {
  int64_t longSum = target.longSum;
  return layout.hasVariableTiles() && (isEpilogueInMemory(layout, target) ||
                                       layout.sumExtent().constant().value_or(longSum) >= longSum);
}

/// A short sum is over before a fetch would have come; so is a matrix that fits in the cache.
static PrefetchCache choosePrefetch(const ContractLayout &layout, const CPUInfo &target) {
  std::optional<int64_t> sums = layout.sumExtent().constant();
  int64_t panelRowBytes = layout.panel() * layout.rhsType.getIntOrFloatBitWidth() / 8;
  bool isUseful =
      layout.packed && !layout.depthwise && sums && *sums >= target.shortSum &&
      layout.maxTiles() >= 1 &&
      *sums * panelRowBytes * layout.numPanels().constant().value_or(1 << 20) >= target.l2Bytes / 4;
  if (!isUseful)
    return PrefetchCache::None;
  // With few tiles the panel is needed at once.
  return layout.maxTiles() <= 2 ? PrefetchCache::L1 : PrefetchCache::L2;
}

/// Rows that lie a power of two apart would share a few sets of the cache.
static int64_t choosePadding(const ContractLayout &layout, int64_t bytes, const CPUInfo &target) {
  if (layout.lhs != LeftOperand::Matrix)
    return 0;
  bool areInSameSets = *layout.rows.front().lhsStride.constant() * bytes % target.setPeriod == 0;
  return areInSameSets ? target.cacheLine / bytes : 0;
}

/// The right operand is read as it lies in memory.
static bool isRhsTurned(const ContractLayout &layout) {
  kernel::ContractOp op = layout.op;
  unsigned lastK = op.getExtents().size() - 1, lastN = lastK - op.getNumK();
  return !layout.packed && layout.lanes != 1 && op.getNumK() != 0 && op.getNumN() != 0 &&
         walksAlong(op.getRhs(), lastK, lastN);
}

/// The sum is cut when a panel of the right operand, which every tile of rows reads again, or the
/// rows of one tile in scratch would not leave room for anything else in level 2 cache.
static int64_t chooseBlockSum(const ContractLayout &layout, int64_t m, int64_t k, int64_t bytes,
                              int64_t cache, const CPUInfo &target) {
  int64_t panelBytes = layout.panel() * bytes;
  if (m <= layout.maxTileRows() && layout.packed)
    panelBytes = 1;
  if (layout.lhs == LeftOperand::Matrix)
    panelBytes = std::max(panelBytes, layout.maxTileRows() * bytes);
  int64_t sumBlocks = llvm::divideCeilSigned(k * panelBytes, cache);
  int64_t blockSum = llvm::divideCeilSigned(k, sumBlocks);
  if (layout.sums.size() == 1 && sumBlocks > 1)
    blockSum = llvm::alignTo(blockSum, 16);
  if (!layout.hasBoundedBlocks())
    blockSum = k;
  if (!layout.sums.front().extent.isConstant())
    blockSum = std::min<int64_t>(std::max<int64_t>(cache / panelBytes, 1), target.openSum);
  return blockSum;
}

static KernelPlan choose(ContractLayout layout, const CPUInfo &target) {
  kernel::ContractOp op = layout.op;
  int64_t m = estimate(op.getM().getSizes()), n = estimate(op.getN().getSizes());
  int64_t k = estimate(op.getK().getSizes());
  int64_t batch = estimate(op.getBatch().getSizes().take_front(layout.numOuterBatch()));
  if (layout.depthwise)
    n = codegen::estimate(layout.columns.extent);
  int64_t bytes = std::max<int64_t>(layout.lhsType.getIntOrFloatBitWidth() / 8, 1);

  kernel::ContractTarget shape{layout.lanes, target.vectorRegisters};
  layout.vectors = layout.packed ? *op.getPanel() / layout.lanes
                                 : kernel::chooseContractPanel(m, n, shape) / layout.lanes;
  chooseTile(layout, chooseRows(layout, target), target);
  chooseTile(layout, layout.maxTileRows(),
             target); // one step of two axes is a tile of the inner one

  int64_t outer = batch;
  for (const ContractAxis &axis : ArrayRef(layout.rows).take_front(layout.blockAxis))
    outer *= std::max<int64_t>(codegen::estimate(axis.extent), 1);
  double seconds = estimateSeconds(layout, m, n, k, batch, bytes, target);
  int64_t allTasks = static_cast<int64_t>(
      std::clamp(seconds / target.taskSeconds(), 1.0, double(target.maxTasks)));
  int64_t tasks = llvm::divideCeilSigned(allTasks, outer);

  int64_t units = std::max<int64_t>(codegen::estimate(layout.numUnits()), 1);
  int64_t panels = std::max<int64_t>(codegen::estimate(layout.numPanels()), 1);
  int64_t cache = target.l2Bytes / 2;
  int64_t blockSum = chooseBlockSum(layout, m, k, bytes, cache, target);

  int64_t rowBlocks = 1, columnBlocks = 1;
  if (layout.isStaged()) {
    int64_t outerOfBatch = outer / batch;
    double stageBytes = double(layout.stageEstimate()) * double(bytes);
    if (layout.depthwise)
      stageBytes *= double(layout.panel());
    if (layout.lhs == LeftOperand::Matrix)
      stageBytes *= double(m) / double(outerOfBatch) * double(blockSum);
    int64_t cacheBlocks = static_cast<int64_t>(stageBytes / double(cache)) + 1;
    int64_t cuts = tasks;
    // Each block of rows copies the right operand again, as each block of columns does the left.
    if (layout.lhs == LeftOperand::Matrix && !layout.packed)
      cuts = std::max<int64_t>(std::llround(std::sqrt(double(tasks) * double(m) / double(n))), 1);
    rowBlocks = std::min(units, std::max(std::min(cuts, tasks), cacheBlocks));
    columnBlocks = std::min(panels, llvm::divideCeilSigned(tasks, rowBlocks));
  } else if (m > n && layout.packed) {
    rowBlocks = std::min(units, tasks);
    if (!sym::product(op.getM().getSizes()).isConstant())
      rowBlocks = std::min(rowBlocks, llvm::divideCeilSigned(m, target.fewestRows));
    columnBlocks = std::min(panels, llvm::divideCeilSigned(tasks, rowBlocks));
  } else {
    // Panels in pairs: the second comes while the first is at work.
    columnBlocks = std::min(layout.packed ? std::max<int64_t>(panels / 2, 1) : panels, tasks);
    rowBlocks = std::min(units, llvm::divideCeilSigned(tasks, columnBlocks));
    if (columnBlocks >= target.cores)
      rowBlocks = std::min(rowBlocks, llvm::divideCeilSigned(m, target.manyRows));
  }

  int64_t unitRows = layout.maxTileRows();
  if (layout.blockAxis != layout.tileAxis) {
    unitRows = 1;
    for (const ContractAxis &axis : ArrayRef(layout.rows).drop_front(layout.blockAxis + 1))
      unitRows *= axis.extent.constant().value_or(1);
  }
  int64_t blockRows = llvm::divideCeilSigned(units, rowBlocks) * unitRows;
  int64_t blockColumns = llvm::divideCeilSigned(panels, columnBlocks) * layout.panel();
  int64_t tileRows = layout.maxTileRows(), vectors = layout.vectors;
  int64_t tileAxes = layout.rows.size() - layout.tileAxis;
  int64_t blockAxes = layout.rows.size() - layout.blockAxis;
  auto makeSchedule = [&](EpiloguePlace epilogue, bool shareTiles, PrefetchCache prefetch,
                          int64_t padding) {
    return ContractAttr::get(op.getContext(), tileRows, vectors, layout.lanes, blockRows,
                             blockColumns, blockSum, layout.lhs, epilogue, shareTiles, prefetch,
                             tileAxes, blockAxes, padding, isRhsTurned(layout), target.unroll);
  };
  // The rest follows from the tiles that there are.
  layout.apply(makeSchedule(EpiloguePlace::Registers, false, PrefetchCache::None, 0));
  KernelPlan plan{makeSchedule(isEpilogueInMemory(layout, target) ? EpiloguePlace::Memory
                                                                  : EpiloguePlace::Registers,
                               doTilesShareCode(layout, target), choosePrefetch(layout, target),
                               choosePadding(layout, bytes, target))};
  plan.cycles = seconds * target.hertz();
  plan.reason = llvm::formatv("worth {0} tasks", allTasks);
  return plan;
}

FailureOr<KernelPlan> cpu::planContract(kernel::FuncOp func, const CPUInfo &target) {
  auto op = cast<kernel::ContractOp>(func.getRoot());
  if (op.getPart())
    return op.emitError("cannot be compiled for CPUs: a product in parts");
  FailureOr<ContractAttr> given = getGivenSchedule<ContractAttr>(func);
  if (failed(given))
    return failure();
  KernelPlan plan{*given};
  if (!plan.schedule) {
    FailureOr<ContractLayout> layout = ContractLayout::get(op, target);
    if (failed(layout))
      return failure();
    plan = choose(*layout, target);
  }
  FailureOr<ContractLayout> layout =
      getScheduledLayout(op, cast<ContractAttr>(plan.schedule), target);
  if (failed(layout))
    return failure();
  plan.grid = sym::product(layout->gridSizes());
  plan.scratchBytes = layout->scratchBytes();
  if (!plan.grid.isValid())
    return op.emitOpError("is too large");
  return plan;
}
