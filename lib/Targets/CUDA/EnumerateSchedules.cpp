// Schedules to try for a kernel beside the one that it has: neighbours, which differ in a few numbers.
#include "CUDA/Hopper/Variants.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Sums of a thread that registers hold beside operands.
static constexpr int64_t mostSums = 128;

/// `value`, half and twice as much.
static std::array<int64_t, 3> around(int64_t value) { return {value, value / 2, value * 2}; }

static void addMaps(MapScheduleAttr base, Candidates &candidates) {
  auto add = [&](int64_t threads, int64_t team, int64_t steps, int64_t vector, int64_t keep) {
    constexpr int64_t across = 1;
    candidates.add<MapScheduleAttr>(threads, team, across, steps, vector, keep);
  };
  int64_t threads = base.getThreads(), team = base.getTeam(), vector = base.getVector(),
          keep = base.getKeep();
  if (team == 1)
    for (int64_t steps : around(base.getSteps()))
      for (int64_t block : around(threads))
        add(block, 1, steps, vector, 0);
  // Only what planning reckons may be a vector: that, or one element.
  add(threads, team, base.getSteps(), 1, keep);
  // Rows of a thread, of a warp, and of blocks. Registers of fewer threads hold more of a row.
  add(threads, 1, 1, 1, 0);
  for (int64_t held : {keep, keep / 2, int64_t(0), int64_t(32), int64_t(64)}) {
    add(threads, warpSize, 1, vector, held);
    add(threads / 2, warpSize, 1, vector, held);
    for (int64_t block : {128, 256, 512, 1024})
      add(block, block, 1, vector, held);
  }
  constexpr int64_t steps = 1, element = 1;
  if (base.getAcross() > 1)
    for (int64_t size : around(team))
      for (int64_t across : around(base.getAcross()))
        candidates.add<MapScheduleAttr>(size * across, size, across, steps, element, keep);
}

static void addTransposedMaps(TransposedMapScheduleAttr base, Candidates &candidates) {
  auto add = [&](int64_t threads, int64_t read, int64_t written, int64_t vector) {
    candidates.add<TransposedMapScheduleAttr>(threads, read, written, vector);
  };
  for (int64_t threads : around(base.getThreads()))
    add(threads, base.getRead(), base.getWritten(), base.getVector());
  for (int64_t read : around(base.getRead()))
    for (int64_t written : around(base.getWritten()))
      add(base.getThreads(), read, written, base.getVector());
  add(base.getThreads(), base.getRead(), base.getWritten(), 1);
  // Reads that do not go through shared memory.
  constexpr int64_t threads = 256, team = 1, across = 1, vector = 1, keep = 0;
  for (int64_t steps : {1, 4})
    candidates.add<MapScheduleAttr>(threads, team, across, steps, vector, keep);
}

static void addDots(DotScheduleAttr base, Candidates &candidates) {
  for (int64_t columns : around(base.getColumns()))
    for (int64_t ahead : around(base.getAhead()))
      for (int64_t threads : around(base.getThreads()))
        candidates.add<DotScheduleAttr>(threads, base.getRows(), columns, base.getVector(), ahead);
}

static void addFmas(FmaScheduleAttr base, Candidates &candidates) {
  auto add = [&](int64_t m, int64_t n, int64_t k, TileShape thread) {
    if (thread.count() <= mostSums)
      candidates.add<FmaScheduleAttr>(m, n, k, thread, base.getStages());
  };
  auto [rows, columns] = base.getThread();
  for (auto [m, n, k, thread] :
       std::initializer_list<std::tuple<int64_t, int64_t, int64_t, TileShape>>{
           {128, 128, 16, {8, 8}},
           {64, 64, 16, {4, 4}},
           {32, 64, 16, {2, 4}},
           {16, 32, 32, {2, 2}}})
    add(m, n, k, thread);
  for (int64_t k : around(base.getK()))
    add(base.getM(), base.getN(), k, base.getThread());
  for (int64_t m : around(base.getM()))
    for (int64_t n : around(base.getN()))
      add(m, n, base.getK(), base.getThread());
  for (int64_t m : around(rows))
    for (int64_t n : around(columns))
      add(base.getM(), base.getN(), base.getK(), {m, n});
}

static void addMmas(MmaScheduleAttr base, Candidates &candidates) {
  auto add = [&](int64_t m, int64_t n, int64_t k, TileShape warp, int64_t stages) {
    if (warp.count() <= mostSums * warpSize)
      candidates.add<MmaScheduleAttr>(m, n, k, warp, base.getStep(), stages, base.getProducts());
  };
  int64_t m = base.getM(), n = base.getN(), k = base.getK(), stages = base.getStages();
  TileShape warp = base.getWarp();
  for (int64_t places : {stages - 1, stages - 2, stages + 1, stages + 2})
    add(m, n, k, warp, places);
  for (int64_t steps : {k / 2, k * 2})
    for (int64_t places : {stages, stages - 1, stages - 2})
      add(m, n, steps, warp, places);
  for (int64_t rows : around(m))
    for (int64_t columns : around(n))
      add(rows, columns, k, warp, stages);
  for (int64_t rows : around(warp.m))
    for (int64_t columns : around(warp.n)) {
      add(m, n, k, {rows, columns}, stages);
      add(m * rows / warp.m, n * columns / warp.n, k, {rows, columns}, stages);
    }
}

static void addMatrixAttention(Candidates &candidates) {
  for (int64_t keys : {64, 32, 16})
    for (int64_t rows : {16, 32})
      for (int64_t warps : {4, 2, 1})
        candidates.add<MmaAttentionScheduleAttr>(warps, rows, keys);
}

static void addScalarAttention(ScalarAttentionScheduleAttr base, Candidates &candidates) {
  for (int64_t rows : around(base.getRows()))
    for (int64_t warps : around(base.getWarps()))
      candidates.add<ScalarAttentionScheduleAttr>(warps, rows);
}

static void addScans(ScanScheduleAttr base, Candidates &candidates) {
  for (int64_t threads : around(base.getThreads()))
    for (int64_t elements : around(base.getElements()))
      candidates.add<ScanScheduleAttr>(threads, elements, base.getParts());
}

static void addSorts(SortScheduleAttr base, Candidates &candidates) {
  int64_t places = base.getPlaces();
  for (int64_t count : {places, places * 2, places / 2})
    for (int64_t threads : around(base.getThreads()))
      candidates.add<SortScheduleAttr>(threads, count);
}

/// A block has as many elements as before.
static void addMerges(MergeScheduleAttr base, Candidates &candidates) {
  int64_t block = base.getThreads() * base.getElements();
  for (int64_t threads : around(base.getThreads()))
    if (block % threads == 0)
      candidates.add<MergeScheduleAttr>(threads, block / threads);
}

static void addScatters(ScatterScheduleAttr base, Candidates &candidates) {
  for (int64_t places : around(base.getPlaces()))
    for (int64_t batch : around(base.getBatch()))
      for (int64_t threads : around(base.getThreads()))
        candidates.add<ScatterScheduleAttr>(threads, places, batch);
}

static void addTasks(Candidates &candidates) {
  for (int64_t threads : {32, 64, 128, 256})
    candidates.add<TasksScheduleAttr>(threads);
}

SmallVector<kernel::ScheduleAttrInterface>
cuda::enumerateSchedules(kernel::FuncOp func, kernel::ScheduleAttrInterface base) {
  Candidates candidates(base);
  llvm::TypeSwitch<Attribute>(base)
      .Case([&](MapScheduleAttr map) { addMaps(map, candidates); })
      .Case([&](TransposedMapScheduleAttr map) { addTransposedMaps(map, candidates); })
      .Case([&](DotScheduleAttr dot) { addDots(dot, candidates); })
      .Case([&](FmaScheduleAttr fma) { addFmas(fma, candidates); })
      .Case([&](MmaScheduleAttr mma) { addMmas(mma, candidates); })
      .Case<WgmmaScheduleAttr, WgmmaAttentionScheduleAttr>(
          [&](auto variant) { addVariantCandidates(func, variant, candidates); })
      .Case([&](MmaAttentionScheduleAttr) { addMatrixAttention(candidates); })
      .Case(
          [&](ScalarAttentionScheduleAttr attention) { addScalarAttention(attention, candidates); })
      .Case([&](ScanScheduleAttr scan) { addScans(scan, candidates); })
      .Case([&](SortScheduleAttr sort) { addSorts(sort, candidates); })
      .Case([&](MergeScheduleAttr merge) { addMerges(merge, candidates); })
      .Case([&](ScatterScheduleAttr scatter) { addScatters(scatter, candidates); })
      .Case([&](TasksScheduleAttr) { addTasks(candidates); });
  return llvm::to_vector(candidates.get());
}
