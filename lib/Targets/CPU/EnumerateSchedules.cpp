// Schedules to try for a kernel beside the one that it has.
#include "kiln/Targets/CPU/Candidates.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

/// Tasks of more and of less, of a schedule that has rows, columns and lanes.
template <typename Schedule> static void addRows(Schedule base, Candidates &candidates) {
  auto add = [&](int64_t rows, int64_t columns) {
    if (rows >= 1 && (columns >= 1) == (base.getColumns() >= 1))
      candidates.add<Schedule>(rows, columns, base.getLanes());
  };
  for (double factor : {.5, 2., .25, 4.}) {
    add(static_cast<int64_t>(double(base.getRows()) * factor), base.getColumns());
    add(base.getRows(), static_cast<int64_t>(double(base.getColumns()) * factor));
  }
}

static void addSort(SortAttr base, Candidates &candidates) {
  auto add = [&](int64_t rows, int64_t digitsFrom, int64_t pickFrom, int64_t wideFrom,
                 int64_t digitBits, int64_t most) {
    candidates.add<SortAttr>(rows, base.getLanes(), digitsFrom, pickFrom, wideFrom, digitBits,
                             most);
  };
  int64_t rows = base.getRows(), digits = base.getDigitsFrom(), pick = base.getPickFrom(),
          wide = base.getWideFrom(), bits = base.getDigitBits(), most = base.getCandidates();
  for (int64_t other : {rows / 2, rows * 2})
    add(other, digits, pick, wide, bits, most);
  for (int64_t factor : {8, 64})
    add(rows, digits * factor, pick, wide * factor, bits, most);
  add(rows, std::max<int64_t>(digits / 8, 1), pick, std::max<int64_t>(wide / 8, 1), bits, most);
  add(rows, digits, pick, wide, bits == 8 ? 4 : 8, most);
  if (pick) {
    add(rows, digits, 0, wide, bits, most);
    for (int64_t other : {most / 2, most * 2})
      add(rows, digits, pick, wide, bits, other);
  }
}

/// Lower tiles, and tasks of more and fewer of them.
static void addTiles(WinogradAttr base, Candidates &candidates) {
  int64_t rows = base.getTileRows(), blocks = base.getTiles() / rows;
  for (int64_t lower : {rows, rows - 1, rows - 2, rows - 4})
    for (int64_t count : {blocks, blocks / 2, blocks - 1, blocks + 1, blocks * 2})
      if (lower >= 1 && count >= 1)
        candidates.add<WinogradAttr>(lower, lower * count, base.getLanes());
}

SmallVector<kernel::ScheduleAttrInterface> cpu::enumerateSchedules(kernel::FuncOp func,
                                                                   const CPUInfo &target) {
  kernel::ScheduleAttrInterface base = func.getScheduleAttr();
  Candidates candidates(base);
  llvm::TypeSwitch<Attribute>(base)
      .Case([&](MapAttr) { addMapCandidates(func, target, candidates); })
      .Case([&](ContractAttr) { addContractCandidates(func, target, candidates); })
      .Case<AttentionAttr, AttentionByQueryAttr>(
          [&](auto) { addAttentionCandidates(func, target, candidates); })
      .Case([&](WinogradAttr winograd) { addTiles(winograd, candidates); })
      .Case([&](ScanAttr scan) { addRows(scan, candidates); })
      .Case([&](ScatterAttr scatter) { addRows(scatter, candidates); })
      .Case([&](SortAttr sort) { addSort(sort, candidates); });
  return llvm::to_vector(candidates.get());
}
