// Schedules of a contract beside the one that it has: each changes one decision, or two that belong
// together.
#include "kiln/Targets/CPU/Candidates.h"
#include "kiln/Targets/CPU/ContractLayout.h"
#include "kiln/Targets/CPU/Microkernel.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

/// The parameters of a schedule, to be changed one by one.
struct Parameters {
  explicit Parameters(ContractAttr from)
      : tileRows(from.getTileRows()), vectors(from.getVectors()), lanes(from.getLanes()),
        blockRows(from.getBlockRows()), blockColumns(from.getBlockColumns()),
        blockSums(from.getBlockSums()), lhs(from.getLhs()), epilogue(from.getEpilogue()),
        shareTiles(from.getShareTiles()), prefetch(from.getPrefetch()),
        tileAxes(from.getTileAxes()), blockAxes(from.getBlockAxes()),
        lhsPadding(from.getLhsPadding()), turn(from.getTurn()), tileSums(from.getTileSums()),
        unroll(from.getUnroll()), rhs(from.getRhs()), epiloguePrefetch(from.getEpiloguePrefetch()),
        unit(from.getUnit()), parts(from.getParts()), vectorRows(from.getVectorRows()),
        widenRows(from.getWidenRows()) {}

  int64_t tileRows, vectors, lanes, blockRows, blockColumns, blockSums;
  LeftOperand lhs;
  EpiloguePlace epilogue;
  bool shareTiles;
  PrefetchCache prefetch;
  int64_t tileAxes, blockAxes, lhsPadding;
  Turn turn;
  int64_t tileSums, unroll;
  RightOperand rhs;
  PrefetchCache epiloguePrefetch;
  ProductUnit unit;
  int64_t parts, vectorRows, widenRows;
};

class ContractCandidates {
public:
  ContractCandidates(kernel::ContractOp op, ContractAttr base, const ContractLayout &layout,
                     const CPUInfo &target, Candidates &candidates)
      : context(op.getContext()), base(base), layout(layout), target(target),
        candidates(candidates), rowBlocks(estimate(layout.numRowBlocks())),
        columnBlocks(estimate(layout.numColumnBlocks())), steps(layout.sumExtent().constant()) {}

  void add() {
    addPrefetches();
    addBlocks();
    addParts();
    addVectorRows();
    addTiles();
    addLeftOperands();
    addRightOperands();
    addEpilogues();
    addLoops();
    addSums();
    addUnits();
  }

private:
  void add(const Parameters &p) {
    candidates.add<ContractAttr>(
        p.tileRows, p.vectors, p.lanes, p.blockRows, p.blockColumns, p.blockSums, p.lhs, p.epilogue,
        p.shareTiles, p.prefetch, p.tileAxes, p.blockAxes, p.lhsPadding, p.turn, p.tileSums,
        p.unroll, p.rhs, p.epiloguePrefetch, p.unit, p.parts, p.vectorRows, p.widenRows);
  }

  /// As many blocks of rows and columns as that, if there are.
  Parameters withBlocks(Parameters p, int64_t rows, int64_t columns) const {
    ContractLayout cut = layout;
    cut.setTile(p.tileRows, p.tileAxes, p.blockAxes);
    int64_t unitRows = cut.maxTileRows();
    if (cut.blockAxis != cut.tileAxis) {
      unitRows = 1;
      for (const ContractAxis &axis : ArrayRef(cut.rows).drop_front(cut.blockAxis + 1))
        unitRows *= axis.extent.constant().value_or(1);
    }
    int64_t units = std::max<int64_t>(estimate(cut.numUnits()), 1);
    int64_t panels = std::max<int64_t>(estimate(cut.numPanels()), 1);
    p.blockRows = llvm::divideCeilSigned(units, std::clamp<int64_t>(rows, 1, units)) * unitRows;
    p.blockColumns = llvm::divideCeilSigned(panels, std::clamp<int64_t>(columns, 1, panels)) *
                     p.vectors * p.lanes;
    return p;
  }

  void addBlocks() {
    static constexpr std::pair<double, double> factors[] = {
        {2, .5}, {.5, 2}, {1, 2}, {2, 1},      {1, .5},     {.5, 1}, {4, .25}, {.25, 4}, {1, 4},
        {4, 1},  {1, 3},  {3, 1}, {1, 1. / 3}, {1. / 3, 1}, {1, 8},  {8, 1},   {.25, 1}, {1, .25}};
    for (auto [ofRows, ofColumns] : factors) {
      auto rows = static_cast<int64_t>(double(rowBlocks) * ofRows);
      auto columns = static_cast<int64_t>(double(columnBlocks) * ofColumns);
      if (rows >= 1 && columns >= 1)
        add(withBlocks(Parameters(base), rows, columns));
    }
  }

  void addParts() {
    if (layout.numParts().isConstant(1))
      return;
    for (auto [times, divisor] : {std::pair{2, 1}, {1, 2}, {4, 1}, {1, 4}}) {
      Parameters p(base);
      p.parts = std::max<int64_t>(p.parts * times / divisor, 1);
      add(p);
    }
  }

  void addVectorRows() {
    for (int64_t rows : {1, 2, 4, 8}) {
      Parameters p(base);
      p.vectorRows = rows;
      if (p.tileRows % rows == 0 && (rows == 1 || !layout.whyNoVectorRows(rows)))
        add(p);
    }
  }

  void addTiles() {
    if (base.getUnit() == ProductUnit::Tiles)
      return;
    Parameters p(base);
    int64_t most = maxTileRows(target, p.vectors), sums = target.tileSums / p.vectors;
    for (int64_t rows : {most, sums, sums * 5 / 6, sums * 2 / 3, sums / 2}) {
      p.tileRows = std::clamp<int64_t>(rows, 1, most);
      add(withBlocks(p, rowBlocks, columnBlocks));
    }
    for (int64_t rows = most; rows > 1; --rows) {
      p.tileRows = rows;
      add(withBlocks(p, rowBlocks, columnBlocks));
    }
    // Panels are as wide as they are where an operand is packed.
    if (layout.packed)
      return;
    for (int64_t vectors : {1, 2, 4}) {
      p = Parameters(base);
      p.vectors = vectors;
      p.tileRows = std::min(maxTileRows(target, vectors),
                            vectors == 2 ? target.tileSums / 2 : target.tileSums);
      add(withBlocks(p, rowBlocks, columnBlocks));
    }
  }

  /// Vectors where tiles are planned, and the other way round.
  void addUnits() {
    Parameters p(base);
    if (base.getUnit() == ProductUnit::Tiles) {
      p.unit = ProductUnit::Vectors;
      p.tileRows =
          std::clamp<int64_t>(target.tileSums / p.vectors, 1, maxTileRows(target, p.vectors));
      p.epilogue = EpiloguePlace::Registers;
    } else if (!layout.whyNoTiles(target)) {
      p.unit = ProductUnit::Tiles;
      p.tileRows = maxProductRows;
      p.epilogue = EpiloguePlace::Memory;
      p.tileAxes = 1;
      p.blockAxes = std::min<int64_t>(p.blockAxes, 2);
      p.blockSums = steps.value_or(p.blockSums);
    } else if (base.getUnit() == ProductUnit::Digits) {
      p.unit = ProductUnit::Vectors;
    } else if (!layout.whyNoBlockFloats(target)) {
      p.unit = ProductUnit::Digits;
    } else {
      return;
    }
    add(withBlocks(p, rowBlocks, columnBlocks));
  }

  void addSums() {
    if (!steps)
      return;
    for (int64_t cut : {*steps, *steps / 2, *steps / 4, int64_t(256), int64_t(512), *steps / 3,
                        *steps / 6, *steps / 8, int64_t(128), int64_t(384)}) {
      Parameters p(base);
      p.blockSums = cut < *steps ? llvm::alignTo(std::max<int64_t>(cut, 16), 16) : *steps;
      if (p.blockSums < *steps)
        p.epilogue = EpiloguePlace::Memory; // the sums are kept there
      add(p);
    }
  }

  void addPrefetches() {
    for (PrefetchCache cache : {PrefetchCache::None, PrefetchCache::L1, PrefetchCache::L2}) {
      Parameters p(base);
      p.prefetch = cache;
      add(p);
    }
    for (PrefetchCache cache : {PrefetchCache::None, PrefetchCache::L1, PrefetchCache::L2}) {
      Parameters p(base);
      p.epiloguePrefetch = cache;
      add(p);
    }
  }

  void addLoops() {
    for (int64_t unroll : {4, 8, 16, 24, 1, 2, 6, 32}) {
      Parameters p(base);
      p.unroll = unroll;
      add(p);
    }
    Parameters p(base);
    p.shareTiles = !p.shareTiles;
    add(p);
    p = Parameters(base);
    p.widenRows = 0;
    add(p);
  }

  void addEpilogues() {
    for (EpiloguePlace place : {EpiloguePlace::Registers, EpiloguePlace::Memory}) {
      Parameters p(base);
      p.epilogue = place;
      add(p);
    }
  }

  void addLeftOperands() {
    for (LeftOperand lhs : {LeftOperand::Direct, LeftOperand::Window, LeftOperand::Matrix}) {
      Parameters p(base);
      p.lhs = lhs;
      p.lhsPadding = 0;
      add(p);
      p.lhsPadding = 16;
      add(p);
    }
  }

  void addRightOperands() {
    if (layout.rhsStrides.empty())
      return;
    for (RightOperand rhs : {RightOperand::Panels, RightOperand::Direct}) {
      Parameters p(base);
      p.rhs = rhs;
      add(p);
    }
  }

  MLIRContext *context;
  ContractAttr base;
  const ContractLayout &layout;
  const CPUInfo &target;
  Candidates &candidates;
  int64_t rowBlocks, columnBlocks;
  std::optional<int64_t> steps;
};

} // namespace

void cpu::addContractCandidates(kernel::FuncOp func, const CPUInfo &target,
                                Candidates &candidates) {
  auto op = cast<kernel::ContractOp>(func.getRoot());
  auto base = cast<ContractAttr>(func.getScheduleAttr());
  FailureOr<ContractLayout> layout = getScheduledLayout(op, base, target);
  if (succeeded(layout))
    ContractCandidates(op, base, *layout, target, candidates).add();
}
