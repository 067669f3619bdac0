// How kernel.winograd is run on a CPU, shared by its planner and its emitter.
//
// A task has a few tiles of an image, all channels and all features. It writes Bᵀ D B for each of them, vectors of channels at
// a time, so that for every point there is a matrix of tiles by channels. A panel of features is then the contract's microkernel
// once for each point, whose sums stay in level 2 cache until Aᵀ M A and the epilogue have been made of them.
#ifndef KILN_TARGETS_CPU_WINOGRADLAYOUT_H
#define KILN_TARGETS_CPU_WINOGRADLAYOUT_H

#include "kiln/Codegen/CPUInfo.h"
#include "kiln/Targets/CPU/CPUDialect.h"
#include "llvm/Support/MathExtras.h"

namespace kiln::cpu {

struct WinogradLayout {
  kernel::WinogradOp op;
  int64_t tile = 2, points = 4, panel = 1;
  int64_t features = 1, channels = 1;

  // The schedule.
  int64_t lanes = 1;
  int64_t tileRows = 1; // of the microkernel: tiles whose sums are in registers together
  int64_t tiles = 1;    // of a task, a multiple of that
  /// Elements from a tile's channels to the next one's, at one point.
  int64_t channelStride = 1;

  /// Without the schedule.
  static mlir::FailureOr<WinogradLayout> get(kernel::WinogradOp op);

  int64_t vectors() const { return panel / lanes; }
  int64_t numPoints() const { return points * points; }
  sym::Expr tilesY() const { return extent(0).ceilDiv(tile); }
  sym::Expr tilesX() const { return extent(1).ceilDiv(tile); }
  sym::Expr numTiles() const { return tilesY() * tilesX(); } // of an image
  sym::Expr extent(unsigned i) const { return kernel::WinogradOp(op).getPixels().getSizes()[i]; }
  /// Batch dims, then groups of tiles.
  llvm::SmallVector<sym::Expr> gridSizes() const;

  // Scratch memory of a task, in bytes.
  int64_t inputBytes() const;
  int64_t scratchBytes() const;
};

mlir::FailureOr<WinogradLayout> getScheduledLayout(kernel::WinogradOp op, WinogradAttr schedule,
                                                   const codegen::CPUInfo &target);

/// The width of the panels of U.
int64_t chooseWinogradPanel(int64_t features, const codegen::CPUInfo &target);

/// Estimated cycles of all tasks, by the tiles of an image and the images that there are, for channels and features of
/// these numbers.
double estimateWinogradCycles(int64_t tile, int64_t tilesOfImage, int64_t images, int64_t channels,
                              int64_t features, const codegen::CPUInfo &target);

} // namespace kiln::cpu

#endif // KILN_TARGETS_CPU_WINOGRADLAYOUT_H
