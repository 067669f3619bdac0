// How a contract is cut into tiles, blocks and tasks.
//
// Tile. With two vectors of columns, 12 rows keep 24 accumulators (`tile_sums`), as fast as 14 on
// Zen 5. Few rows (a product of a matrix and a vector) make wide tiles instead, since then the right
// operand is what has to stream. A tile takes the rows of two axes if the inner one is short (7x7
// images).
//
// Tasks. `task_time` each, at most `max_tasks`: enough for many threads, few enough that starting
// them does not count. A short product has shorter ones, of `least_task` at least, up to a few for each
// core: one that ends late then leaves the others little to wait for. Cutting columns leaves every right-hand panel to one task; rows are cut when
// there are more of them, or when a staged left operand would be copied again by every column
// block. Rows of a number that is not known are never cut finely: each block reads all of its
// columns of the right operand, which a small number of rows would have read once.
#include "CPU/Contract/BlockFloats.h"
#include "CPU/Contract/ContractStaging.h"
#include "CPU/Contract/GroupProducts.h"
#include "CPU/Contract/SmallWeights.h"
#include "CPU/Contract/TileProducts.h"
#include "CPU/Contract/WordGroups.h"
#include "CPU/Streams.h"
#include "kiln/Targets/CPU/ContractLayout.h"
#include "kiln/Targets/CPU/KernelEmitters.h"
#include "kiln/Targets/CPU/Microkernel.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <numeric>

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

/// Bytes of a way of level 1 cache: what lies so far apart is in the same set.
static constexpr int64_t page = 4096;

/// Elements from one row to the next in the left operand, or in a copy of windows; nothing: they are not known.
static std::optional<int64_t> findRowStride(const ContractLayout &layout) {
  const ContractAxis &axis = layout.rows.back();
  if (!axis.extent.isConstant())
    return std::nullopt;
  if (layout.lhs == LeftOperand::Direct)
    return axis.lhsStride.constant();
  kernel::ContractOp op = layout.op;
  unsigned firstK = op.getExtents().size() - op.getNumK();
  int64_t stride = 1;
  for (const StageAxis &stage : llvm::reverse(layout.stage)) {
    if (stage.rowDim == axis.first)
      return stage.rowStep * stride;
    if (stage.rowDim)
      return std::nullopt;
    stride *= *op.getK().getSizes()[*stage.sumDim - firstK].constant();
  }
  return std::nullopt;
}

/// Rows that a tile reads without their lines driving each other out of level 1 cache. Of rows of 1024
/// elements, tiles of 8 run at 0.96 of the FMA peak of Zen 4, which has 8 ways, and tiles of 12 at 0.90. Windows that
/// move by as many (3x3 of 512 channels, with a stride of 2) take 0.81 of the time in tiles of 7.
static int64_t countRowsInCache(const ContractLayout &layout, const CPUInfo &target) {
  std::optional<int64_t> stride = findRowStride(layout);
  int64_t bytes = layout.lhsType.getIntOrFloatBitWidth() / 8;
  bool isInOneSet = stride && *stride != 0 && *stride * bytes % page == 0;
  return isInOneSet ? std::max<int64_t>(target.l1Bytes / page, 1) : INT64_MAX;
}

/// Rows of a tile whose epilogue reads what lies as the result does, a part of a page from row to row, and has not long to wait
/// for it: the lines of both would share few sets. With sums of 64 to 256 steps, 1x1 convolutions of ResNet-50 take 0.90 to 0.97
/// of the time on Zen 4.
static int64_t countRowsOfEpilogue(const ContractLayout &layout, const CPUInfo &target) {
  std::optional<int64_t> sums = layout.sumExtent().constant();
  std::optional<int64_t> columns = layout.columns.extent.constant();
  int64_t bytes = layout.sumType.getIntOrFloatBitWidth() / 8;
  bool areFew = sums && *sums <= target.longSum && columns && *columns * bytes % (page / 4) == 0 &&
                !layout.epilogueTiles().empty();
  return areFew ? std::max<int64_t>(target.l1Bytes / page, 1) : INT64_MAX;
}

/// Tallest tile worth having; see the measurements above.
static int64_t chooseRows(const ContractLayout &layout, const CPUInfo &target) {
  int64_t most = std::min({maxTileRows(target, layout.vectors), countRowsInCache(layout, target),
                           countRowsOfEpilogue(layout, target)});
  if (layout.inGroups && layout.lhsType.isF32())
    return maxWordGroupRows(target);
  if (layout.inGroups)
    return std::min(maxGroupRows(target, layout.vectors), target.tileSums / 2);
  if (layout.vectors == 1)
    return std::min(most, target.tileSums);
  // Steps of a window are written out with addresses of their own for each row. Where the sum is
  // short, tall tiles spend more on addresses than on products: 8 rows take 0.5 to 0.9 of the time
  // of 14 on Zen 5 (first layers of images and sound, depthwise 7x7).
  constexpr int64_t windowRows = 8, shortRun = 32;
  bool isInRuns = layout.sums.size() > 1 &&
                  layout.sums.back().extent.constant().value_or(target.longSum) <= shortRun;
  if ((layout.lhs == LeftOperand::Window || isInRuns) && layout.vectors == 2 &&
      layout.sumExtent().constant().value_or(target.longSum) < target.longSum)
    return std::min(most, windowRows);
  // Short image rows (7, 14, 28 …) divide by 14.
  if (layout.vectors == 2 && (layout.rows.size() == 1 || !layout.rows.back().extent.isConstant()))
    return std::min(most, target.tileSums / 2);
  return most;
}

/// A task's copy for a single row of the image fits in a quarter of level 2 cache.
static bool doWholeRowsFit(ContractLayout layout, int64_t maxRows, const CPUInfo &target) {
  layout.setTile(maxRows, 1, 2);
  layout.setRowBlock(1);
  return layout.lhsScratchBytes() <= target.l2Bytes / 4;
}

/// Cuts the rows into tiles of at most `maxRows`. Windows slide over whole rows of the image if they
/// can: a task with a part of one would copy as many rows as the window has for it, in short pieces.
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
  if (tileAxes == 1 && axes > 1 && layout.lhs == LeftOperand::Window && !isShort)
    isShort = doWholeRowsFit(layout, maxRows, target);
  bool isBlockOutside = tileAxes == 1 && axes > 1 && isShort;
  layout.setTile(maxRows, tileAxes, isBlockOutside ? 2 : tileAxes);
}

//===-- Tiles (AMX) --------------------------------------------------------------------------===//

/// Cycles of a batch's product in tiles: shorter ones take as long, and all sums go through memory.
static double countTileCycles(const ContractLayout &layout, int64_t m, int64_t n, int64_t k,
                              const CPUInfo &target) {
  const ContractAxis &rows = layout.rows[layout.tileAxis], &axis = layout.sums[layout.wordAxis()];
  TileSteps steps(*axis.extent.constant());
  int64_t extent = std::max<int64_t>(codegen::estimate(rows.extent), 1);
  double rowTiles =
      layout.tileInner != 1
          ? double(m) / double(layout.tileInner)
          : double(llvm::divideCeilSigned(extent, tileRegisterRows)) * double(m) / double(extent);
  double columnTiles = double(llvm::divideCeilSigned(n, tileColumns));
  double sums = double(k) / double(layout.rhsSteps) / double(*axis.extent.constant());
  double products = rowTiles * columnTiles * sums * double(steps.count * target.tileCycles);
  double rest = double(m) * columnTiles * sums * double(steps.rest) / double(target.fmaUnits);
  double accesses = 3 * double(m) * columnTiles * double(target.accessCost);
  return products + rest + accesses;
}

/// Cuts the rows for tiles, if these take less time than vectors.
static bool chooseTiles(ContractLayout &layout, int64_t m, int64_t n, int64_t k,
                        const CPUInfo &target) {
  ContractLayout tiled = layout;
  tiled.unit = ProductUnit::Tiles;
  std::optional<int64_t> rows =
      sym::product(kernel::ContractOp(layout.op).getM().getSizes()).constant();
  if (layout.lanes == 1 || layout.turn != Turn::None || layout.panel() % tileColumns != 0 ||
      (rows && *rows <= mostVectorRows))
    return false;
  // A register for each of two short rows of an image, which share what is loaded of the right operand.
  std::optional<int64_t> inner = layout.rows.back().extent.constant();
  bool isOnTwoAxes = layout.numBlockAxes() > 1 && inner && *inner <= tileRegisterRows &&
                     *inner > 1 && layout.rows[layout.rows.size() - 2].extent.isConstant();
  bool isBlockOutside = layout.blockAxis < layout.tileAxis || layout.tileInner != 1;
  if (isOnTwoAxes)
    tiled.setTile(maxProductRows / tileRegisterRows * *inner, 2, 2);
  else
    tiled.setTile(maxProductRows, 1, isBlockOutside ? 2 : 1);
  tiled.setRowBlock(1);
  if (tiled.whyNoTiles(target))
    return false;
  double vectors = double(m) * double(llvm::divideCeilSigned(n, layout.lanes)) * double(k) /
                   double(layout.rhsSteps) / double(target.fmaUnits);
  if (countTileCycles(tiled, m, n, k, target) >= vectors)
    return false;
  layout = std::move(tiled);
  return true;
}

static double estimateSeconds(const ContractLayout &layout, int64_t m, int64_t n, int64_t k,
                              int64_t batch, int64_t bytes, const CPUInfo &target) {
  double flops = 2.0 * double(m) * double(n) * double(k) * double(batch);
  // Every product loads both of its operands, and the copy is not small beside so short a sum.
  if (layout.depthwise)
    flops *= 1.5;
  double flopRate = 2 * double(target.fmaUnits) * double(layout.lanes) * target.hertz();
  if (layout.unit == ProductUnit::Tiles)
    flopRate = 2 * double(m) * double(n) * double(k) / countTileCycles(layout, m, n, k, target) *
               target.hertz();
  return std::max(flops / flopRate, double(n) * double(k) * double(batch) * double(bytes) /
                                        target.memoryBytesPerSecond());
}

/// The tasks that a product of `seconds` is worth.
static int64_t countTasks(double seconds, const CPUInfo &target) {
  constexpr int64_t tasksOfCore = 2;
  double few = std::min(seconds / target.leastTaskSeconds(), double(tasksOfCore * target.cores));
  double tasks = std::max(seconds / target.taskSeconds(), few);
  return static_cast<int64_t>(std::clamp(tasks, 1.0, double(target.maxTasks)));
}

/// The epilogue is done in memory if it is long, or if the sum is cut.
static bool isEpilogueInMemory(const ContractLayout &layout, const CPUInfo &target) {
  if (!layout.numSumBlocks().isConstant(1))
    return true;
  kernel::BodyCost cost = kernel::getCost(kernel::ContractOp(layout.op).getEpilogue());
  // Once for each accumulator: code for a hundred exponentials is not worth its size.
  int64_t accumulators = layout.maxTileRows() * layout.vectors;
  int64_t heavy = cost.transcendental + cost.gathers;
  // A scale that is read is as short as one that is a constant.
  int64_t light = cost.arithmetic + cost.reads - cost.uniformReads;
  return accumulators * (light + 20 * heavy) > target.epilogueOps || cost.reduces;
}

/// The cost of sharing tiles' code does not count beside a long sum, and there is one microkernel
/// less.
static bool doTilesShareCode(const ContractLayout &layout, const CPUInfo &target) {
  int64_t longSum = target.longSum;
  return layout.hasVariableTiles() &&
         (layout.unit == ProductUnit::Tiles || isEpilogueInMemory(layout, target) ||
          layout.sumExtent().constant().value_or(longSum) >= longSum);
}

/// A short sum is over before a fetch would have come; so is a matrix that fits in the cache, once
/// many rows have read it. Before that it is in none: packed operands are weights, and all others of
/// the model have been in the caches since this one was. A task of one tile reads its panels once, in
/// the order of memory, which some CPUs see by themselves (`fetch_streams`), unless the sum is cut or zero
/// points are a third stream. A panel that is fetched into level 1 cache drives the other out, unless both fit.
static PrefetchCache choosePrefetch(const ContractLayout &layout, int64_t m,
                                    const CPUInfo &target) {
  std::optional<int64_t> sums = layout.sumExtent().constant();
  int64_t panelRowBytes = layout.panelRowBytes();
  bool isInOrder = layout.numSumBlocks().isConstant(1) && !target.fetchStreams &&
                   !(layout.unit == ProductUnit::Digits && layout.offsetTensor);
  bool isUseful = layout.packed && !layout.widened && !layout.depthwise && sums &&
                  *sums >= target.shortSum &&
                  layout.maxTiles() > (layout.hasVariableTiles() || !isInOrder ? 0 : 1) &&
                  (m <= target.manyRows ||
                   *sums * panelRowBytes * layout.numPanels().constant().value_or(1 << 20) >=
                       target.l2Bytes / 4);
  if (!isUseful)
    return PrefetchCache::None;
  return *sums * panelRowBytes <= target.l1Bytes / 4 ? PrefetchCache::L1 : PrefetchCache::L2;
}

/// The lines come while the sum is at work, if it is long enough. Without, each tile waits for them
/// at its end: a residual of 2 MB takes a fifth of a product with sums of 384 steps on Zen 5.
static PrefetchCache chooseEpiloguePrefetch(const ContractLayout &layout, const CPUInfo &target) {
  std::optional<int64_t> sums = layout.sumExtent().constant();
  bool isInTime = !sums || *sums >= target.shortSum;
  return isInTime && !layout.epilogueTiles().empty() ? PrefetchCache::L1 : PrefetchCache::None;
}

/// Rows that lie a power of two apart would share a few sets of the cache.
static int64_t choosePadding(const ContractLayout &layout, int64_t bytes, const CPUInfo &target) {
  if (layout.lhs != LeftOperand::Matrix)
    return 0;
  bool areInSameSets = *layout.rows.front().lhsStride.constant() * bytes % target.setPeriod == 0;
  return areInSameSets ? target.cacheLine / bytes : 0;
}

/// A sum that is cut is cut further until the rows of a block stay in level 2 cache for all panels that multiply them. With 3x3
/// windows of 2048 channels, 256 rows and 16 panels, it takes 0.92 of the time on Zen 3.
static int64_t keepRowsInCache(int64_t blockSum, int64_t rows, int64_t panels, int64_t bytes,
                               int64_t cache) {
  constexpr int64_t manyPanels = 8, shortest = 256;
  if (panels < manyPanels || rows * blockSum * bytes <= cache)
    return blockSum;
  return std::min(blockSum, std::max(cache / (rows * bytes), shortest));
}

/// The sum is cut when a panel of the right operand, which every tile of rows reads again, or the
/// rows of one tile in scratch would not leave room for anything else in level 2 cache. Of a
/// convolution's panels that leave little, smaller pieces leave more: with 3x3 windows of 512 and 1024 channels it takes 0.92 to
/// 0.98 of the time on Zen 3.
static int64_t chooseBlockSum(const ContractLayout &layout, int64_t m, int64_t k, int64_t bytes,
                              int64_t cache, const CPUInfo &target) {
  int64_t panelBytes = layout.panel() * bytes;
  bool isInMemory = layout.packed || layout.rhs == RightOperand::Direct;
  if (m <= layout.maxTileRows() && isInMemory)
    panelBytes = 1;
  if (layout.lhs == LeftOperand::Matrix)
    panelBytes = std::max(panelBytes, layout.maxTileRows() * bytes);
  if (layout.packed && layout.sums.size() > 1 && k * panelBytes > cache / 2)
    cache /= 8;
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

//===-- Right operands that lie along the sum -------------------------------------------------===//

/// The right operand lies along the sum, with the k dims in this order.
static bool liesAlongSum(const ContractLayout &layout) {
  kernel::ContractOp op = layout.op;
  unsigned end = op.getExtents().size(), firstK = end - op.getNumK();
  return !layout.packed && !layout.depthwise && op.getNumK() != 0 &&
         walksAlong(op.getRhs(), end - 1, op.getNumN() != 0 ? firstK - 1 : end);
}

/// It does with the k dims in the order of memory, and is turned so, all of the sum at a time.
static bool isTurnedInMemoryOrder(const ContractLayout &layout) {
  return layout.turn == Turn::Rhs && !layout.rhsOrder.empty() && !liesAlongSum(layout);
}

namespace {
/// How a right operand that lies along the sum is read, and the estimated cycles of a vector of it,
/// with all that is computed of it; negative: it cannot be read so.
struct TurnChoice {
  Turn turn = Turn::None;
  double rhsCycles = -1, sumsCycles = -1;
};
} // namespace

/// The most rows and sums of a tile whose sums are turned: as many as hide the latency of an FMA,
/// and two operands that are read for each FMA are too many.
static void chooseTurnedTile(ContractLayout &layout, int64_t n, const CPUInfo &target) {
  constexpr int64_t mostRows = 8, mostSums = 16, others = 4;
  int64_t sums = std::min(mostSums, target.vectorRegisters - others);
  auto columns =
      static_cast<int64_t>(llvm::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
  columns = std::min<int64_t>(columns, 4);
  layout.turn = Turn::Sums;
  layout.lanes = target.lanes(layout.sumType);
  layout.vectors = 1;
  chooseTile(layout, std::min(sums / columns, mostRows), target);
  chooseTile(layout, layout.maxTileRows(), target);
  layout.tileSums = std::max(layout.maxTileRows() * columns, target.fmaUnits * target.fmaLatency);
}

/// A block of what tiles share stays in level 1 cache.
static int64_t chooseTurnedBlock(const ContractLayout &layout, int64_t m, int64_t n, int64_t k,
                                 int64_t bytes, const CPUInfo &target) {
  int64_t rows = layout.maxTileRows();
  int64_t shared = m > rows ? rows + std::min(layout.panel(), n) : 2 * rows;
  int64_t most = std::max<int64_t>(target.l1Bytes / (shared * bytes), 8 * layout.lanes);
  if (!layout.sums.front().extent.isConstant())
    return most;
  int64_t block = llvm::divideCeilSigned(k, llvm::divideCeilSigned(k, most));
  return layout.sums.size() == 1 ? llvm::alignTo(block, layout.lanes) : block;
}

/// Columns that are a page apart share a few sets of level 1 cache, and leave it before the next
/// tile.
static bool areColumnsInSameSets(const ContractLayout &layout, int64_t k) {
  return k * layout.rhsType.getIntOrFloatBitWidth() / 8 % page == 0;
}

static TurnChoice chooseTurn(const ContractLayout &layout, int64_t m, int64_t n, int64_t k,
                             int64_t bytes, const CPUInfo &target) {
  TurnChoice choice;
  bool isInOrder = liesAlongSum(layout);
  if (!isInOrder && (layout.rhsOrder.empty() || layout.depthwise))
    return choice;
  auto rows = static_cast<double>(m), fmaUnits = static_cast<double>(target.fmaUnits);
  auto opRate = static_cast<double>(target.opRate);
  int64_t lanes = target.lanes(layout.sumType);
  if (layout.lanes != 1) {
    choice.turn = Turn::Rhs;
    // A shuffle in each step, one a cycle; a load and a store.
    choice.rhsCycles = llvm::Log2_64(lanes) + 2 / opRate + rows / fmaUnits;
  }
  if (lanes <= 1 || layout.lhs == LeftOperand::Window || !isInOrder ||
      kernel::ContractOp(layout.op).getBytes())
    return choice;
  ContractLayout turned = layout;
  chooseTurnedTile(turned, n, target);
  // Elements of the left operand that are copied for each vector of the right one.
  double copied = 0;
  int64_t inner = k;
  if (turned.lhsLiesAlongSum())
    inner = estimate({turned.sums.back().extent});
  else
    copied = rows * static_cast<double>(lanes) / static_cast<double>(n);
  auto tile = static_cast<double>(turned.maxTileRows());
  auto columns = static_cast<double>(turned.turnedColumns(turned.maxTileRows(), n));
  double product = std::max({tile / fmaUnits, (tile + columns) / columns / opRate,
                             static_cast<double>(target.fmaLatency) / columns});
  if (m > turned.maxTileRows() && areColumnsInSameSets(turned, k))
    product *= 1.3;
  // Two shuffles and a sum for each column but the last.
  double turns = 3 * static_cast<double>(lanes - 1) / opRate * tile;
  auto block = static_cast<double>(chooseTurnedBlock(turned, m, n, k, bytes, target));
  auto whole = static_cast<double>(llvm::alignTo(inner, lanes)) / static_cast<double>(inner);
  choice.sumsCycles = std::ceil(rows / tile) * (product * whole + turns / block) +
                      copied * static_cast<double>(target.elementCost);
  if (choice.rhsCycles < 0 || choice.sumsCycles < choice.rhsCycles)
    choice.turn = Turn::Sums;
  return choice;
}

//===-- Right operands that lie along the columns ---------------------------------------------===//

/// A panel stays in level 1 cache where it is, without a copy: its rows do not share a few sets.
static bool staysInCache(const ContractLayout &layout, int64_t k, const CPUInfo &target) {
  constexpr int64_t mostOfSet = 4;
  int64_t bytes = layout.rhsType.getIntOrFloatBitWidth() / 8;
  std::optional<int64_t> stride = layout.rhsStrides.back().constant();
  if (!stride)
    return false;
  int64_t sets = page / target.cacheLine;
  int64_t rowLines = llvm::divideCeilSigned(layout.panel() * bytes, target.cacheLine);
  int64_t period = page / std::gcd(*stride * bytes, page);
  int64_t usedSets = std::min(period * rowLines, sets);
  return llvm::divideCeilSigned(k * rowLines, usedSets) <= mostOfSet;
}

/// One tile of rows reads each panel once; for more of them, a copy pays off with the number of
/// rows, and where rows of the panel would push each other out of the cache.
static bool isReadWhereItIs(const ContractLayout &layout, int64_t m, int64_t k,
                            const CPUInfo &target) {
  constexpr int64_t fewRows = 128;
  if (layout.rhsStrides.empty() || layout.hasVariableTiles() || layout.turn != Turn::None)
    return false;
  return m <= layout.maxTileRows() || (m <= fewRows && staysInCache(layout, k, target));
}

/// Vectors of each row of a right operand that is streamed.
static constexpr int64_t streamedVectors = 2;

/// A right operand from beyond level 2 cache that few rows read once: in panels of all of its steps, one to six rows take 1.1 to 4
/// times as long on Zen 3, for matrices and for planes of an image.
static bool isStreamed(const ContractLayout &layout, int64_t m, int64_t n, int64_t k,
                       const CPUInfo &target) {
  if (layout.rhs != RightOperand::Direct || layout.lhs != LeftOperand::Direct ||
      layout.rhsStrides.size() != 1 || m > maxTileRows(target, streamedVectors))
    return false;
  int64_t bytes = layout.rhsType.getIntOrFloatBitWidth() / 8;
  Rows rows{k, n, bytes, layout.rhsStrides.front().constant()};
  // Wide panels of one row are as fast in level 3 cache.
  bool isSlow = m > 1 && rows.shareSets() && 4 * rows.allBytes() >= m * target.l2Bytes;
  return rows.areMany() && (rows.areLarge() || isSlow);
}

/// Vectors of columns of a panel. One row reads the right operand where it is in runs that are as
/// long as there are accumulators: of 24 vectors instead of 8, 16 MB take 0.6 of the time on Zen 5.
static int64_t choosePanelVectors(const ContractLayout &layout, int64_t m, int64_t n,
                                  const CPUInfo &target) {
  if (layout.packed)
    return static_cast<int64_t>(*kernel::ContractOp(layout.op).getPanel()) / layout.lanes;
  bool isOneRow = sym::product(kernel::ContractOp(layout.op).getM().getSizes()).isConstant(1);
  if (isOneRow && !layout.rhsStrides.empty() && layout.turn == Turn::None)
    return std::clamp<int64_t>(llvm::divideCeilSigned(n, layout.lanes), 1, target.tileSums);
  kernel::ContractTarget shape{layout.lanes, target.vectorRegisters};
  return kernel::chooseContractPanel(m, n, shape) / layout.lanes;
}

/// Lanes for a few columns: no more than they fill.
static int64_t chooseLanes(const ContractLayout &layout) {
  constexpr uint64_t fewest = 4;
  std::optional<int64_t> columns = layout.columns.extent.constant();
  if (!columns || *columns < 2 || layout.packed || layout.depthwise)
    return layout.lanes;
  uint64_t needed = std::max(llvm::bit_ceil(static_cast<uint64_t>(*columns)), fewest);
  return std::min(layout.lanes, static_cast<int64_t>(needed));
}

/// Rows that share a vector where the columns would leave most of it empty, with tiles that are a
/// multiple of them. What is stored lies next to each other then, and there is nothing to gather.
static void chooseVectorRows(ContractLayout &layout, const CPUInfo &target) {
  kernel::ContractOp op = layout.op;
  std::optional<int64_t> extent = layout.rows.back().extent.constant();
  // Shuffles that cross parts of a register as wide as this take longer than what they save.
  constexpr int64_t partBits = 128;
  if (layout.lanes * layout.sumType.getIntOrFloatBitWidth() > partBits)
    return;
  auto isInOrder = [](ArrayRef<int64_t> dims) { return llvm::is_sorted(dims); };
  bool reads = llvm::any_of(op.getEpilogue().getOps(), [](Operation &inner) {
    return isa<kernel::IndexedOpInterface>(inner);
  });
  if (!extent || reads || !isInOrder(op.getResultDims()) || layout.vectors != 1 ||
      layout.turn == Turn::Sums || layout.unit == ProductUnit::Tiles)
    return;
  ContractLayout tiled = layout;
  tiled.blockSums = tiled.sumExtent().constant().value_or(1);
  for (int64_t rows = target.lanes(layout.sumType) / layout.lanes; rows > 1; rows /= 2) {
    // The sums, as many vectors of the left operand, and one of the right.
    int64_t most = (target.vectorRegisters - 2) / 2 * rows;
    for (int64_t tile = std::min(most, *extent) / rows * rows; tile > 0; tile -= rows) {
      if (*extent % tile != 0)
        continue;
      tiled.setTile(tile, 1, layout.rows.size() - layout.blockAxis);
      if (tiled.whyNoVectorRows(rows))
        break;
      tiled.vectorRows = rows;
      tiled.blockSums = layout.blockSums;
      layout = std::move(tiled);
      return;
    }
  }
}

/// The steps of a row, whole groups, whose digits stay in level 1 cache while weights go by.
static int64_t chooseDigitBlock(const ContractLayout &layout, int64_t k, const CPUInfo &target) {
  int64_t blocks = llvm::divideCeilSigned(countBlockFloatWords(k) * 4, target.l1Bytes / 4);
  return llvm::alignTo(llvm::divideCeilSigned(k, blocks), *layout.sumInner().constant());
}

//===-- The schedule -------------------------------------------------------------------------===//

/// Blocks of rows such that little is copied: each of them copies the right operand again, as each
/// block of columns does the windows.
static int64_t chooseWindowBlocks(const ContractLayout &layout, int64_t tasks, int64_t n, int64_t k,
                                  const CPUInfo &target) {
  double turn = (llvm::Log2_64(layout.lanes) + 2 / double(target.opRate)) / double(layout.lanes);
  double copy = 2 / double(target.opRate) / double(layout.lanes);
  double windows = double(layout.stageEstimate()) * copy;
  double blocks = std::sqrt(double(tasks) * windows / (double(n) * double(k) * turn));
  return std::max<int64_t>(std::llround(blocks), 1);
}

/// Blocks of `m` rows each of which reads all of a packed right operand, of so many panels, from memory: their products take many
/// times as long, unless the columns alone make too few tasks. (With as much time for both, 3x3 convolutions of 512 channels and
/// 1024 rows take 1.03 to 1.06 times as long on Zen 3.)
static int64_t chooseReadingBlocks(const ContractLayout &layout, int64_t m, int64_t panels,
                                   int64_t tasks, int64_t bytes, const CPUInfo &target) {
  constexpr double timesOfRead = 16;
  double read = double(bytes) * target.hertz() / target.memoryBytesPerSecond();
  double rows = std::ceil(read * double(layout.lanes * target.fmaUnits));
  auto most = std::max<int64_t>(static_cast<int64_t>(std::ceil(double(m) / rows)), 1);
  auto few = std::max<int64_t>(static_cast<int64_t>(double(m) / rows / timesOfRead), 1);
  return std::clamp(llvm::divideCeilSigned(tasks, panels), few, most);
}

/// The rows of a block that copies the panels of a right operand which is not packed, as every other
/// one does: more where the columns alone are some tasks for each core, as long as the next panel
/// finds the left operand, with rows of so many bytes, in level 3 cache.
static int64_t chooseCopyingRows(int64_t columnBlocks, int64_t rowBytes, const CPUInfo &target) {
  constexpr int64_t tasksOfCore = 3, mostBlocks = 4, cachesOfL2 = 4;
  if (columnBlocks < tasksOfCore * target.cores)
    return target.manyRows;
  int64_t kept = cachesOfL2 * target.l2Bytes / std::max<int64_t>(rowBytes, 1);
  return std::clamp(kept, target.manyRows, mostBlocks * target.manyRows);
}

/// Blocks of `m` rows in tiles: a block stays in level 2 cache while all panels of a task multiply it. With
/// 16 times the products of vectors in a cycle, there is no time to read it again from further away. Windows share their pixels.
static int64_t chooseTileBlocks(const ContractLayout &layout, int64_t m, int64_t bytes,
                                const CPUInfo &target) {
  for (const ContractAxis &axis : ArrayRef(layout.sums).drop_front(layout.wordAxis()))
    bytes *= *axis.extent.constant();
  return llvm::divideCeilSigned(m, std::max(target.l2Bytes / 2 / bytes, maxProductRows));
}

/// At least `blocks` blocks of `units`, such that two or four threads end at about the same time: each
/// block is done `others` times, and there are not many more tasks than `tasks`.
static int64_t balanceBlocks(int64_t units, int64_t blocks, int64_t others, int64_t tasks) {
  constexpr double taskCost = 0.01;
  int64_t most = std::min(units, 3 * tasks / (2 * others)), best = blocks;
  double bestCost = 0;
  for (int64_t more = blocks; more <= most; ++more) {
    int64_t block = llvm::divideCeilSigned(units, more);
    int64_t count = llvm::divideCeilSigned(units, block) * others;
    double cost = taskCost * double((more - blocks) * others);
    for (int64_t threads : {2, 4})
      cost +=
          double(llvm::divideCeilSigned(count, threads) * block * threads) / double(units * others);
    if (bestCost != 0 && cost >= bestCost)
      continue;
    best = more;
    bestCost = cost;
  }
  return best;
}

/// Parts of a task, of `count` that take `seconds` together: so many that claiming the task does not
/// count beside them, and the workers are not woken for less. Parts of unknown size may be long.
static int64_t chooseParts(const ContractLayout &layout, int64_t count, double seconds,
                           const CPUInfo &target) {
  constexpr double tasksOfLeast = 4, limit = 1 << 16;
  double part = std::max(seconds / double(count), 1e-12);
  auto most =
      static_cast<int64_t>(std::min(target.leastTaskSeconds() / tasksOfLeast / part, limit));
  bool areAlike =
      layout.sumExtent().isConstant() && layout.columns.extent.isConstant() &&
      llvm::all_of(layout.rows, [](const ContractAxis &axis) { return axis.extent.isConstant(); });
  if (layout.unit == ProductUnit::Tiles || !areAlike || most < 2)
    return 1;
  if (!layout.numParts().isConstant())
    return most;
  return llvm::divideCeilSigned(count, llvm::divideCeilSigned(count, most));
}

static KernelPlan choose(ContractLayout layout, const CPUInfo &target) {
  kernel::ContractOp op = layout.op;
  int64_t m = estimate(op.getM().getSizes()), n = estimate(op.getN().getSizes());
  int64_t k = estimate(op.getK().getSizes());
  int64_t batch = estimate(op.getBatch().getSizes().take_front(layout.numOuterBatch()));
  if (layout.depthwise)
    n = codegen::estimate(layout.columns.extent);
  int64_t bytes = std::max<int64_t>(layout.lhsType.getIntOrFloatBitWidth() / 8, 1);

  TurnChoice turn = chooseTurn(layout, m, n, k, bytes, target);
  layout.turn = turn.turn;
  bool isStream = false;
  if (turn.turn == Turn::Sums) {
    if (!layout.lhsLiesAlongSum())
      layout = *ContractLayout::get(op, target, LeftOperand::Matrix);
    chooseTurnedTile(layout, n, target);
  } else {
    layout.lanes = chooseLanes(layout);
    layout.vectors = choosePanelVectors(layout, m, n, target);
    chooseTile(layout, chooseRows(layout, target), target);
    chooseTile(layout, layout.maxTileRows(),
               target); // one step of two axes is a tile of the inner one
    if (isReadWhereItIs(layout, m, k, target))
      layout.rhs = RightOperand::Direct;
    isStream = isStreamed(layout, m, n, k, target);
    if (isStream) {
      layout.vectors = streamedVectors;
      chooseTile(layout, chooseRows(layout, target), target);
    }
    chooseTiles(layout, m, n, k, target);
    chooseVectorRows(layout, target);
  }

  int64_t outer = batch;
  for (const ContractAxis &axis : ArrayRef(layout.rows).take_front(layout.blockAxis))
    outer *= std::max<int64_t>(codegen::estimate(axis.extent), 1);
  double seconds = estimateSeconds(layout, m, n, k, batch, bytes, target);
  int64_t allTasks = countTasks(seconds, target);
  int64_t tasks = llvm::divideCeilSigned(allTasks, outer);

  int64_t units = std::max<int64_t>(codegen::estimate(layout.numUnits()), 1);
  int64_t panels = std::max<int64_t>(codegen::estimate(layout.numPanels()), 1);
  int64_t cache = target.l2Bytes / 2;
  int64_t blockSum = chooseBlockSum(layout, m, k, bytes, cache, target);
  if (isTurnedInMemoryOrder(layout))
    blockSum = k;
  bool hasTiles = layout.unit == ProductUnit::Tiles;
  if (hasTiles || layout.inGroups || layout.widened)
    blockSum = k;
  bool hasDigits = !hasTiles && !layout.whyNoBlockFloats(target);
  if (hasDigits)
    blockSum = chooseDigitBlock(layout, k, target);
  if (isStream)
    blockSum = streamedRows;
  if (layout.turn == Turn::Sums && layout.hasBoundedBlocks())
    blockSum = std::min(blockSum, chooseTurnedBlock(layout, m, n, k, bytes, target));

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
    else if (layout.lhs == LeftOperand::Window && layout.turn == Turn::Rhs)
      cuts = chooseWindowBlocks(layout, tasks, n, k, target);
    else if (layout.packed && !layout.depthwise && n * k * bytes > cache)
      cuts = chooseReadingBlocks(layout, m / outerOfBatch, panels, tasks, bytes, target);
    rowBlocks = std::min(units, std::max(std::min(cuts, tasks), cacheBlocks));
    columnBlocks = std::min(panels, llvm::divideCeilSigned(tasks, rowBlocks));
  } else if (hasTiles && layout.packed && !layout.widened) {
    rowBlocks = std::min(units, chooseTileBlocks(layout, m, bytes, target));
    columnBlocks = std::min(panels, llvm::divideCeilSigned(tasks, rowBlocks));
  } else if (m > n && layout.packed && !layout.widened) {
    rowBlocks = std::min(units, tasks);
    if (layout.sums.size() > 1 && n * k * bytes > cache)
      rowBlocks = std::min(rowBlocks, chooseReadingBlocks(layout, m, panels, tasks, bytes, target));
    if (!sym::product(op.getM().getSizes()).isConstant())
      rowBlocks = std::min(rowBlocks, llvm::divideCeilSigned(m, target.fewestRows));
    columnBlocks = std::min(panels, llvm::divideCeilSigned(tasks, rowBlocks));
  } else {
    // Panels in pairs: the second comes while the first is at work.
    columnBlocks = std::min(layout.packed ? std::max<int64_t>(panels / 2, 1) : panels, tasks);
    rowBlocks = std::min(units, llvm::divideCeilSigned(tasks, columnBlocks));
    int64_t blockRows = target.manyRows;
    if (layout.widened || (!layout.packed && layout.rhs == RightOperand::Panels))
      blockRows = chooseCopyingRows(columnBlocks, k * bytes, target);
    // Each task writes the digits of all of its rows, which takes as long as some tens of columns.
    constexpr int64_t enoughColumns = 512, fewestColumns = 256;
    if (hasDigits)
      columnBlocks = std::min({columnBlocks, llvm::divideCeilSigned(n, fewestColumns),
                               std::max(llvm::divideCeilSigned(n, enoughColumns), target.cores)});
    if (columnBlocks >= target.cores)
      rowBlocks = std::min(rowBlocks, llvm::divideCeilSigned(m, blockRows));
    // All panels of a task are widened before any rows are multiplied, and stay in level 2 cache for all of them.
    if (hasTiles && layout.widened)
      columnBlocks = std::clamp(llvm::divideCeilSigned(n * k * bytes, cache), columnBlocks, panels);
  }

  if (isStream)
    columnBlocks = std::clamp<int64_t>(n / fewestStreamedColumns(n), 1, tasks);
  else if (allTasks > 1 && !layout.isStaged() && !hasDigits &&
           sym::product(op.getM().getSizes()).isConstant()) {
    rowBlocks = balanceBlocks(units, rowBlocks, columnBlocks * outer, allTasks);
    columnBlocks = balanceBlocks(panels, columnBlocks, rowBlocks * outer, allTasks);
  }

  if (hasDigits)
    layout.unit = ProductUnit::Digits;
  int64_t unitRows = layout.maxTileRows();
  if (layout.blockAxis != layout.tileAxis) {
    unitRows = 1;
    for (const ContractAxis &axis : ArrayRef(layout.rows).drop_front(layout.blockAxis + 1))
      unitRows *= axis.extent.constant().value_or(1);
  }
  int64_t blockRows = llvm::divideCeilSigned(units, rowBlocks) * unitRows;
  int64_t blockColumns = llvm::divideCeilSigned(panels, columnBlocks) * layout.panel();
  if (blockSum < k && layout.lhs == LeftOperand::Direct && layout.sums.size() > 1)
    blockSum = keepRowsInCache(blockSum, blockRows, blockColumns / layout.panel(), bytes, cache);
  int64_t tileRows = layout.maxTileRows(), vectors = layout.vectors;
  int64_t tileAxes = layout.rows.size() - layout.tileAxis;
  int64_t blockAxes = layout.rows.size() - layout.blockAxis;
  int64_t parts = chooseParts(layout, outer * rowBlocks * columnBlocks, seconds, target);
  int64_t vectorRows = layout.vectorRows;
  int64_t widenRows = layout.canBeWidened ? fewestManyRows : 0;
  auto makeSchedule = [&](EpiloguePlace epilogue, bool shareTiles, PrefetchCache prefetch,
                          int64_t padding, PrefetchCache ofEpilogue) {
    return ContractAttr::get(op.getContext(), tileRows, vectors, layout.lanes, blockRows,
                             blockColumns, blockSum, layout.lhs, epilogue, shareTiles, prefetch,
                             tileAxes, blockAxes, padding, layout.turn, layout.tileSums,
                             target.unroll, layout.rhs, ofEpilogue, layout.unit, parts, vectorRows,
                             widenRows);
  };
  // The rest follows from the tiles that there are.
  layout.apply(makeSchedule(hasTiles ? EpiloguePlace::Memory : EpiloguePlace::Registers, false,
                            PrefetchCache::None, 0, PrefetchCache::None));
  if (vectorRows != 1 && (isEpilogueInMemory(layout, target) || layout.whyNoVectorRows(vectorRows)))
    vectorRows = 1;
  KernelPlan plan{
      makeSchedule(hasTiles || isEpilogueInMemory(layout, target) ? EpiloguePlace::Memory
                                                                  : EpiloguePlace::Registers,
                   doTilesShareCode(layout, target), choosePrefetch(layout, m, target),
                   choosePadding(layout, bytes, target), chooseEpiloguePrefetch(layout, target))};
  plan.cycles = seconds * target.hertz();
  plan.reason = llvm::formatv("worth {0} tasks", allTasks);
  if (hasTiles)
    plan.reason += " in tiles";
  if (turn.rhsCycles >= 0 && turn.sumsCycles >= 0)
    plan.reason += llvm::formatv("; a vector of the right operand takes {0:f1} cycles to turn and "
                                 "multiply, {1:f1} if sums are turned",
                                 turn.rhsCycles, turn.sumsCycles);
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
  auto schedule = cast<ContractAttr>(plan.schedule);
  FailureOr<ContractLayout> layout = getScheduledLayout(op, schedule, target);
  if (failed(layout))
    return failure();
  plan.grid = layout->numTasks();
  plan.scratchBytes = layout->scratchBytes();
  if (schedule.getWidenRows() != 0) {
    FailureOr<ContractLayout> widened =
        getScheduledLayout(op, schedule, target, /*isWidened=*/true);
    if (failed(widened))
      return failure();
    plan.scratchBytes = std::max(plan.scratchBytes, widened->scratchBytes());
  }
  if (!plan.grid.isValid())
    return op.emitOpError("is too large");
  return plan;
}
