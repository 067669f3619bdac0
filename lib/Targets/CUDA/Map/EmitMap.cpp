// Writes the function of a kernel.map.
//
// A map whose reductions all depend on every dim has rows alone: elements. One whose reductions
// depend on some of the dims (a normalisation) has rows of these dims, and the others are columns:
// a team of threads goes through the row for the reduction together, then writes the columns. If
// a thread's part of a row fits its registers, the row is read once. Whatever a thread computes of
// memory it reads some steps ahead. Rows that are neighbours in memory, of one element each, may
// have teams across each other: neighbouring threads have neighbouring rows.
#include "CUDA/Map/MapDims.h"
#include "CUDA/Map/ThreadTeam.h"
#include "CUDA/Map/TransposePlan.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {
class MapEmitter {
public:
  MapEmitter(DeviceFrame &frame, kernel::MapOp map)
      : frame(frame), map(map), body(frame, map.getBody()), dims(map), position(dims.domain.size()),
        schedule(getSchedule<MapScheduleAttr>(frame.func)),
        team(frame, schedule.getTeam(), schedule.getAcross()), numSteps(schedule.getSteps()),
        vector(schedule.getVector()) {
    if (!dims.reduced)
      return;
    team.vector = vector;
    team.maxKept = schedule.getKeep();
  }

  void emit() {
    body.setLanes(1);
    for (auto [i, extent] : llvm::enumerate(dims.domain))
      if (extent.isConstant(1))
        body.setDim(i, 0);
    sym::Expr size = frame.assumptions.simplify(sym::product(dims.rowExtents()));
    if (!dims.reduced)
      return emitSteps(size);
    int64_t rowsPerBlock = frame.numThreads / team.size;
    sym::Expr block = frame.addVariable(frame.block, size.ceilDiv(rowsPerBlock));
    sym::Expr inBlock =
        rowsPerBlock == 1 ? sym::Expr(0) : frame.addVariable(team.number, rowsPerBlock);
    sym::Expr row = frame.assumptions.simplify(rowsPerBlock * block + inBlock);
    Value exists = frame.emitLess(row, size);
    if (schedule.getAcross() == 1)
      frame.emitIf(exists, [&] { emitRow(frame.named(row, size), {}); });
    else
      emitRow(exists ? clamp(row, size) : frame.named(row, size), exists);
  }

private:
  /// Values that have been computed, and where they are to be stored.
  struct Elements {
    SmallVector<sym::Expr> offsets;
    SmallVector<SmallVector<Value>> values;
  };

  void bind(ArrayRef<codegen::DimGroup> groups, ArrayRef<sym::Expr> extents, sym::Expr linear) {
    for (auto [group, value] : llvm::zip(groups, sym::delinearize(linear, extents)))
      bindGroup(group, frame.named(value, group.extent));
  }

  void bindGroup(const codegen::DimGroup &group, sym::Expr variable) {
    for (auto [i, index] : llvm::enumerate(group.delinearize(variable)))
      position[group.first + i] = frame.assumptions.simplify(index);
    group.bind(body, variable);
  }

  /// Without reductions: a thread has steps as far from each other as a block is wide.
  void emitSteps(sym::Expr size) {
    sym::Expr whole = frame.assumptions.simplify(size.floorDiv(vector));
    sym::Expr total = frame.assumptions.simplify(size.ceilDiv(vector));
    int64_t perBlock = frame.numThreads * numSteps;
    sym::Expr block = frame.addVariable(frame.block, total.ceilDiv(perBlock));
    sym::Expr first = perBlock * block + frame.addVariable(frame.thread, frame.numThreads);
    if (numSteps == 1)
      return emitStep(first, whole, total);
    sym::Expr last = frame.assumptions.simplify(perBlock * block + (perBlock - 1));
    Value isFull = frame.emitLess(last, whole);
    frame.emitIf(isFull, [&] {
      SmallVector<sym::Expr> numbers;
      for (int64_t i = 0; i < numSteps; ++i)
        numbers.push_back(frame.addVariable(frame.emit(first + i * frame.numThreads), whole));
      emitElements(dims.rows, numbers);
    });
    if (!isFull)
      return;
    Value one = arith::ConstantIntOp::create(frame.builder, frame.loc, 1, 1);
    frame.emitIf(arith::XOrIOp::create(frame.builder, frame.loc, isFull, one), [&] {
      frame.emitLoop(frame.constant(0), frame.constant(numSteps), 1, {},
                     [&](Value i, ValueRange) -> SmallVector<Value> {
                       emitStep(first + frame.numThreads * frame.addVariable(i, numSteps), whole,
                                total);
                       return {};
                     });
    });
  }

  void emitStep(sym::Expr number, sym::Expr whole, sym::Expr total) {
    number = frame.addVariable(frame.simplifyAndEmit(number), sym::Range{0, std::nullopt});
    frame.emitIf(frame.emitLess(number, whole),
                 [&] { emitElements(dims.rows, frame.addVariable(frame.emit(number), whole)); });
    if (!dims.isRagged || vector == 1)
      return;
    // Fewer than `vector` are left.
    sym::Expr size = dims.rows.front().extent;
    Value isLast = arith::CmpIOp::create(frame.builder, frame.loc, arith::CmpIPredicate::eq,
                                         frame.emit(number), frame.emit(whole));
    frame.emitIf(isLast, [&] {
      frame.emitLoop(frame.simplifyAndEmit(vector * whole), frame.emit(size), 1, {},
                     [&](Value iv, ValueRange) -> SmallVector<Value> {
                       emitElement(frame.addVariable(iv, size));
                       return {};
                     });
    });
  }

  void emitElement(sym::Expr number) {
    codegen::BodyEmitter::Scope scope(body);
    bind(dims.rows, dims.rowExtents(), number);
    storeElement(sym::linearize(position, dims.domain), body.emitYield());
  }

  /// `row`, or the last one: threads of rows that are not there meet the others at barriers.
  sym::Expr clamp(sym::Expr row, sym::Expr size) {
    Value last = frame.simplifyAndEmit(size - 1);
    return frame.addVariable(
        arith::MinSIOp::create(frame.builder, frame.loc, frame.emit(row), last), size);
  }

  /// `exists`, null: it does. Otherwise the thread computes what it does not store.
  void emitRow(sym::Expr row, Value exists) {
    codegen::BodyEmitter::Scope scope(body);
    bind(dims.rows, dims.rowExtents(), row);
    body.setTeam(team.size > 1 ? &team : nullptr);
    body.readAhead();
    body.emitAvailable();
    if (dims.columns.empty()) {
      SmallVector<Value> values = body.emitYield();
      body.setTeam(nullptr);
      frame.emitIf(frame.both(exists, isLeader()),
                   [&] { storeElement(sym::linearize(position, dims.domain), values); });
      return;
    }
    body.setTeam(nullptr);
    sym::Expr numColumns =
        frame.assumptions.simplify(sym::product(dims.columnExtents()).floorDiv(vector));
    ArrayRef<codegen::Team::Step> steps;
    if (team.size > 1)
      steps = team.getSteps(frame, numColumns);
    SmallVector<Elements> computed;
    for (const codegen::Team::Step &step : steps)
      computed.push_back(computeElements(dims.columns, step.number));
    for (auto [step, elements] : llvm::zip_equal(steps, computed))
      frame.emitIf(step.exists, [&] { store(elements); });
    if (!steps.empty())
      return;
    Value first = team.size > 1 ? team.rank : frame.constant(0);
    int64_t atOnce = team.size > 1 ? codegen::Team::stepsAtOnce / (vector > 1 ? 2 : 1) : 1;
    frame.emitStridedLoop(first, numColumns, team.size, atOnce, {},
                          [&](ArrayRef<sym::Expr> numbers, ValueRange) -> SmallVector<Value> {
                            emitElements(dims.columns, numbers);
                            return {};
                          });
  }

  /// `vector` neighbouring elements for each of `numbers`: all are computed before the first is
  /// stored, so that loads can be made together.
  void emitElements(ArrayRef<codegen::DimGroup> groups, ArrayRef<sym::Expr> numbers) {
    SmallVector<Elements> computed;
    for (sym::Expr number : numbers)
      computed.push_back(computeElements(groups, number));
    for (const Elements &elements : computed)
      store(elements);
  }

  Elements computeElements(ArrayRef<codegen::DimGroup> groups, sym::Expr number) {
    codegen::BodyEmitter::Scope scope(body);
    if (groups.empty()) // a tensor without dims
      return {{0}, {body.emitYield()}};
    const codegen::DimGroup &last = groups.back();
    auto extents = llvm::map_to_vector(groups, [](const codegen::DimGroup &g) { return g.extent; });
    extents.back() = frame.assumptions.simplify(extents.back().floorDiv(vector));
    SmallVector<sym::Expr> linear = sym::delinearize(number, extents);
    for (auto [group, value] : llvm::zip(groups.drop_back(), linear))
      bindGroup(group, frame.named(value, group.extent));
    sym::Expr inner = vector * frame.named(linear.back(), extents.back());
    body.emitAvailable();
    Elements elements;
    for (int64_t i = 0; i < vector; ++i) {
      codegen::BodyEmitter::Scope scope(body);
      bindGroup(last, frame.assumptions.simplify(inner + i));
      elements.values.push_back(body.emitYield());
      elements.offsets.push_back(frame.assumptions.simplify(sym::linearize(position, dims.domain)));
    }
    return elements;
  }

  void store(const Elements &elements) {
    for (auto [offset, values] : llvm::zip(elements.offsets, elements.values))
      storeElement(offset, values);
  }

  Value isLeader() {
    if (team.size == 1)
      return {};
    return arith::CmpIOp::create(frame.builder, frame.loc, arith::CmpIPredicate::eq, team.rank,
                                 frame.constant(0));
  }

  void storeElement(sym::Expr offset, ArrayRef<Value> values) {
    storeResults(frame, map, body, offset, values);
  }

  DeviceFrame &frame;
  kernel::MapOp map;
  codegen::BodyEmitter body;
  MapDims dims;
  SmallVector<sym::Expr> position;
  MapScheduleAttr schedule;
  ThreadTeam team;
  int64_t numSteps, vector;
};
} // namespace

LogicalResult cuda::emitMap(DeviceFrame &frame, kernel::MapOp map) {
  if (isa<TransposedMapScheduleAttr>(frame.func.getScheduleAttr()))
    emitTransposedMap(frame, map);
  else
    MapEmitter(frame, map).emit();
  return success();
}
