// Chooses how many tiles a task of kernel.winograd has on a CPU.
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Targets/CPU/KernelEmitters.h"
#include "kiln/Targets/CPU/Microkernel.h"
#include "kiln/Targets/CPU/WinogradLayout.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

static constexpr int64_t elementBytes = 4;

static int64_t getLanes(const CPUInfo &target) { return target.vectorBytes / elementBytes; }

int64_t cpu::chooseWinogradPanel(int64_t features, const CPUInfo &target) {
  int64_t lanes = getLanes(target);
  return features <= lanes ? lanes : 2 * lanes;
}

/// Elements from a tile's channels to the next one's: rows that lie a period of the cache's sets apart are moved by a line.
static int64_t getChannelStride(int64_t channels, int64_t lanes, const CPUInfo &target) {
  int64_t stride = llvm::alignTo(channels, lanes);
  return stride * elementBytes % target.setPeriod == 0 ? stride + lanes : stride;
}

namespace {
struct Tiles {
  int64_t rows, all; // of a microkernel, and of a task
};
} // namespace

/// As many tiles as level 2 cache holds half of, all of whose microkernels are nearly as high as can be.
static Tiles chooseTiles(int64_t points, int64_t panel, int64_t channels, int64_t tilesOfImage,
                         int64_t images, const CPUInfo &target) {
  int64_t lanes = getLanes(target), vectors = panel / lanes;
  int64_t most =
      std::max<int64_t>(std::min(maxTileRows(target, vectors), target.tileSums / vectors), 1);
  int64_t bytes =
      points * points * (getChannelStride(channels, lanes, target) + panel) * elementBytes;
  int64_t blocks = std::clamp<int64_t>(target.l2Bytes / 2 / (bytes * most), 1, 4);
  int64_t parts = llvm::divideCeilSigned(tilesOfImage, most);
  // Work for every core.
  blocks = std::clamp<int64_t>(parts * images / target.cores, 1, blocks);
  int64_t groups = llvm::divideCeilSigned(parts, blocks);
  blocks = llvm::divideCeilSigned(parts, groups);
  int64_t rows = llvm::divideCeilSigned(tilesOfImage, groups * blocks);
  return {rows, rows * blocks};
}

/// As many images as there are, or a guess.
static int64_t guessImages(kernel::WinogradOp op) {
  int64_t images = 1;
  for (sym::Expr size : op.getBatch().getSizes())
    images *= std::clamp<int64_t>(estimate(size), 1, 1 << 20);
  return images;
}

double cpu::estimateWinogradCycles(int64_t tile, int64_t tilesOfImage, int64_t images,
                                   int64_t channels, int64_t features, const CPUInfo &target) {
  int64_t points = tile + 2, lanes = getLanes(target),
          panel = chooseWinogradPanel(features, target);
  Tiles tiles = chooseTiles(points, panel, channels, tilesOfImage, images, target);
  auto groups = double(llvm::divideCeilSigned(tilesOfImage, tiles.all) * images);
  auto square = double(points * points),
       channelVectors = double(llvm::divideCeilSigned(channels, lanes)),
       featureVectors = double(llvm::alignTo(features, panel)) / double(lanes);
  double all = groups * double(tiles.all);
  // One way and then the other, each with two operations for each element.
  double transform = square * 4 / double(target.opRate) + square * 2;
  double input = all * channelVectors * transform, output = all * featureVectors * transform;
  double product = all * square * double(channels) * featureVectors / double(target.fmaUnits);
  // Each task reads all of U, from behind level 2 cache unless it stays there; only the first from memory.
  constexpr double cacheRate = 3; // of memory's
  double bytes = square * double(channels) * featureVectors * double(target.vectorBytes);
  double times = bytes <= double(target.l2Bytes) / 2 ? 0 : 1 + (groups - 1) / cacheRate;
  double read = times * bytes / target.memoryBytesPerSecond() * target.hertz();
  return input + output + std::max(product, read) + std::min(product, read) / 2;
}

FailureOr<WinogradLayout> WinogradLayout::get(kernel::WinogradOp op) {
  WinogradLayout layout;
  layout.op = op;
  layout.tile = op.getTile();
  layout.points = op.getPoints();
  layout.panel = op.getPanel();
  std::optional<int64_t> features = op.getN().getValue().constant(),
                         channels = op.getC().getValue().constant();
  if (!features || !channels)
    return op.emitOpError("of channels that are not constants is not supported on CPUs");
  layout.features = *features;
  layout.channels = *channels;
  return layout;
}

FailureOr<WinogradLayout> cpu::getScheduledLayout(kernel::WinogradOp op, WinogradAttr schedule,
                                                  const CPUInfo &target) {
  FailureOr<WinogradLayout> layout = WinogradLayout::get(op);
  if (failed(layout))
    return failure();
  layout->lanes = schedule.getLanes();
  layout->tileRows = schedule.getTileRows();
  layout->tiles = schedule.getTiles();
  layout->channelStride = getChannelStride(layout->channels, layout->lanes, target);
  if (layout->panel % layout->lanes != 0)
    return op.emitOpError("has panels of ")
           << layout->panel << ", expected whole vectors of " << layout->lanes;
  return layout;
}

SmallVector<sym::Expr> WinogradLayout::gridSizes() const {
  SmallVector<sym::Expr> sizes(kernel::WinogradOp(op).getBatch().getSizes());
  sizes.push_back(numTiles().ceilDiv(tiles));
  return sizes;
}

int64_t WinogradLayout::inputBytes() const {
  return numPoints() * tiles * channelStride * elementBytes;
}

int64_t WinogradLayout::scratchBytes() const {
  return inputBytes() + numPoints() * tiles * panel * elementBytes;
}

FailureOr<KernelPlan> cpu::planWinograd(kernel::FuncOp func, const CPUInfo &target) {
  auto op = cast<kernel::WinogradOp>(func.getRoot());
  FailureOr<WinogradLayout> layout = WinogradLayout::get(op);
  FailureOr<WinogradAttr> given = getGivenSchedule<WinogradAttr>(func);
  if (failed(layout) || failed(given))
    return failure();
  WinogradAttr schedule = *given;
  int64_t images = guessImages(op), tiles = std::max<int64_t>(estimate(layout->numTiles()), 1);
  if (!schedule) {
    Tiles chosen =
        chooseTiles(layout->points, layout->panel, layout->channels, tiles, images, target);
    schedule = WinogradAttr::get(op.getContext(), chosen.rows, chosen.all, getLanes(target));
  }
  layout = getScheduledLayout(op, schedule, target);
  if (failed(layout))
    return failure();
  KernelPlan plan{schedule};
  plan.grid = sym::product(layout->gridSizes());
  plan.scratchBytes = layout->scratchBytes();
  plan.cycles = estimateWinogradCycles(layout->tile, tiles, images, layout->channels,
                                       layout->features, target);
  plan.reason =
      llvm::formatv("{0} kB of a task's tiles stay in level 2 cache", layout->scratchBytes() >> 10);
  return plan;
}
