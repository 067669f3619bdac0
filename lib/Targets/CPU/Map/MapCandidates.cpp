// Schedules of a map beside the one that it has.
#include "CPU/Map/MapPlan.h"
#include "kiln/Targets/CPU/Candidates.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

/// The parameters of a schedule, to be changed one by one.
struct Parameters {
  explicit Parameters(MapAttr from)
      : vector(from.getVector()), lanes(from.getLanes()), rows(from.getRows()),
        columns(from.getColumns()), steps(from.getSteps()), reduceLanes(from.getReduceLanes()),
        reduceCopies(from.getReduceCopies()), turn(from.getTurn()), keep(from.getKeep()),
        streams(from.getStreams()) {}

  SmallVector<int64_t> vector;
  int64_t lanes, rows, columns, steps;
  SmallVector<int64_t> reduceLanes, reduceCopies, turn;
  bool keep, streams;
};

class MapCandidates {
public:
  MapCandidates(kernel::MapOp map, MapAttr base, const CPUInfo &target, Candidates &candidates)
      : map(map), base(base), target(target), candidates(candidates) {}

  void add() {
    addTasks();
    addLanes();
    addReductions();
    addSteps();
    Parameters again(base);
    again.keep = false;
    add(again);
    // Which loop is in vectors decides all the rest.
    for (const MapPlan &plan : makeMapPlans(map, target))
      candidates.add(makeMapSchedule(base.getContext(), plan));
  }

private:
  void add(const Parameters &p) {
    candidates.add<MapAttr>(ArrayRef<int64_t>(p.vector), p.lanes, p.rows, p.columns, p.steps,
                            ArrayRef<int64_t>(p.reduceLanes), ArrayRef<int64_t>(p.reduceCopies),
                            ArrayRef<int64_t>(p.turn), p.keep, p.streams);
  }

  void addTasks() {
    for (double factor : {.5, 2., .25, 4., 8., 3., .125, 16.}) {
      Parameters p(base);
      p.rows = static_cast<int64_t>(double(p.rows) * factor);
      add(p);
      p = Parameters(base);
      p.columns = llvm::alignTo(static_cast<int64_t>(double(p.columns) * factor), p.lanes);
      add(p);
    }
  }

  void addLanes() {
    for (int64_t lanes :
         {base.getLanes() * 2, base.getLanes() / 2, base.getLanes() * 4, base.getLanes() / 4}) {
      Parameters p(base);
      p.lanes = lanes;
      if (lanes > 0)
        p.columns = llvm::alignTo(p.columns, lanes);
      if (!p.vector.empty())
        add(p);
    }
  }

  /// Those that share a loop have the same shape, so all change together.
  void addReductions() {
    for (double lanes : {1., 2., .5})
      for (double copies : {1., 2., .5}) {
        Parameters p(base);
        auto scale = [](SmallVectorImpl<int64_t> &numbers, double factor) {
          for (int64_t &number : numbers)
            number = std::max<int64_t>(static_cast<int64_t>(double(number) * factor), 1);
        };
        scale(p.reduceLanes, lanes);
        scale(p.reduceCopies, copies);
        add(p);
      }
  }

  void addSteps() {
    if (base.getSteps() == 1)
      return;
    for (int64_t steps : {base.getSteps() / 2, base.getSteps() * 2, base.getSteps() - 1,
                          base.getSteps() + 1, int64_t(1)}) {
      Parameters p(base);
      p.steps = steps;
      add(p);
    }
  }

  kernel::MapOp map;
  MapAttr base;
  const CPUInfo &target;
  Candidates &candidates;
};

} // namespace

void cpu::addMapCandidates(kernel::FuncOp func, const CPUInfo &target, Candidates &candidates) {
  MapCandidates(cast<kernel::MapOp>(func.getRoot()), cast<MapAttr>(func.getScheduleAttr()), target,
                candidates)
      .add();
}
