// Schedules of an attention beside the one that it has.
#include "kiln/Targets/CPU/AttentionLayout.h"
#include "kiln/Targets/CPU/Candidates.h"
#include "kiln/Targets/CPU/Microkernel.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

static void addPanels(AttentionAttr base, const CPUInfo &target, Candidates &candidates) {
  auto add = [&](int64_t tileKeys, int64_t vectors, int64_t blockPanels, int64_t blockKeys,
                 int64_t tileValues) {
    tileKeys = std::clamp<int64_t>(tileKeys, 1, maxTileRows(target, vectors));
    blockKeys = static_cast<int64_t>(llvm::alignTo(std::max<int64_t>(blockKeys, 1), tileKeys));
    candidates.add<AttentionAttr>(tileKeys, vectors, base.getLanes(), blockPanels, blockKeys,
                                  tileValues);
  };
  int64_t tileKeys = base.getTileKeys(), vectors = base.getVectors(),
          blockPanels = base.getBlockPanels(), blockKeys = base.getBlockKeys(),
          tileValues = base.getTileValues();
  for (int64_t panels : {blockPanels * 2, blockPanels / 2, int64_t(1)})
    add(tileKeys, vectors, std::max<int64_t>(panels, 1), blockKeys, tileValues);
  for (int64_t keys : {blockKeys / 2, blockKeys * 2, blockKeys / 4, blockKeys * 4})
    add(tileKeys, vectors, blockPanels, keys, tileValues);
  for (int64_t rows : {6, 8, 10, 12, 14, 7, 9, 11, 13, 5, 4})
    add(rows, vectors, blockPanels, blockKeys, tileValues);
  for (int64_t values : {4, 6, 8, 10, 12, 16, 7, 9, 14, 5, 24})
    add(tileKeys, vectors, blockPanels, blockKeys, values);
  // A task keeps its queries.
  int64_t other = vectors == 1 ? 2 : 1;
  add(vectors == 1 ? tileKeys / 2 : tileKeys * 2, other,
      std::max<int64_t>(blockPanels * vectors / other, 1), blockKeys, tileValues);
}

static void addByQuery(AttentionByQueryAttr base, Candidates &candidates) {
  auto add = [&](int64_t blockKeys, int64_t sums, int64_t keys) {
    candidates.add<AttentionByQueryAttr>(base.getLanes(), blockKeys, sums, keys);
  };
  int64_t blockKeys = base.getBlockKeys(), lanes = base.getLanes();
  for (int64_t keys : {blockKeys / 2, blockKeys * 2, blockKeys / 4, blockKeys * 4})
    add(std::max<int64_t>(keys / lanes, 1) * lanes, base.getSums(), base.getKeys());
  for (int64_t sums : {4, 8, 12, 16})
    add(blockKeys, sums, base.getKeys());
  for (int64_t keys : {1, 2, 4, 8})
    add(blockKeys, base.getSums(), keys);
}

void cpu::addAttentionCandidates(kernel::FuncOp func, const CPUInfo &target,
                                 Candidates &candidates) {
  kernel::ScheduleAttrInterface base = func.getScheduleAttr();
  if (auto panels = dyn_cast<AttentionAttr>(base))
    addPanels(panels, target, candidates);
  else if (auto byQuery = dyn_cast<AttentionByQueryAttr>(base))
    addByQuery(byQuery, candidates);
}
