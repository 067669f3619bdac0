// Plans and writes the function of a kernel.map.
//
// A map whose reductions all depend on every dim has rows alone: elements. One whose reductions
// depend on some of the dims (a normalisation) has rows of these dims, and the others are columns:
// a team of threads goes through the row for the reduction together, then writes the columns.
#include "ThreadTeam.h"
#include "kiln/Target/CPU/LoopNest.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Threads of a block where nothing asks for more.
static constexpr int64_t usualThreads = 256;
/// A row of fewer elements is one thread's, of more than the second number a block's.
static constexpr int64_t minWarpRow = 16, maxWarpRow = 2048;
/// Threads that fill a GPU.
static constexpr int64_t manyElements = 1 << 15;
/// Elements of a row that a thread takes at once, at most.
static constexpr int64_t maxRowVector = 8;
/// Fewer rows than this do not fill a GPU with a warp each.
static constexpr int64_t fewRows = 512;

namespace {
/// The dims of a map by the part they play.
struct MapDims {
  explicit MapDims(kernel::MapOp map);

  SmallVector<sym::Expr> rowExtents() const { return extentsOf(rows); }
  SmallVector<sym::Expr> columnExtents() const { return extentsOf(columns); }

  SmallVector<sym::Expr> domain;
  SmallVector<cpu::DimGroup> rows, columns;
  /// The most elements that a reduction of a row goes through; 0: there is none.
  int64_t reduced = 0;
  /// Neighbouring elements that a thread may take together: the last loop has a multiple of it, and
  /// wide accesses come of it. With reductions these are neighbours in a row.
  int64_t vector = 1;
  /// Neighbouring rows are neighbours in memory, and what is reduced is not.
  bool rowsAreConsecutive = false;

private:
  static SmallVector<sym::Expr> extentsOf(ArrayRef<cpu::DimGroup> groups) {
    return llvm::map_to_vector(groups, [](const cpu::DimGroup &group) { return group.extent; });
  }
  void findWalks(kernel::MapOp map);
  void findVector(kernel::MapOp map);
  bool walksAlong(kernel::MapOp map,
                  const DenseMap<Operation *, llvm::SmallBitVector> &dependences);
};
} // namespace

/// The dims of the map on which each of its values depends.
static DenseMap<Operation *, llvm::SmallBitVector> findDependences(kernel::MapOp map) {
  unsigned rank = map.getDomain().size();
  DenseMap<Operation *, llvm::SmallBitVector> result;
  for (Operation &op : map.getBody().front()) {
    llvm::SmallBitVector dims(rank);
    op.walk([&](Operation *inner) {
      if (auto indices = inner->getAttrOfType<sym::MapAttr>("map"))
        for (sym::Expr expr : indices.getResults())
          expr.walkLeaves([&](sym::Expr leaf) {
            if (leaf.kind() == sym::Kind::Dim && leaf.dimIndex() < rank)
              dims.set(leaf.dimIndex());
          });
      for (Value operand : inner->getOperands())
        if (auto it = result.find(operand.getDefiningOp()); it != result.end())
          dims |= it->second;
    });
    result[&op] = dims;
  }
  return result;
}

MapDims::MapDims(kernel::MapOp map) : domain(map.getDomain()) {
  unsigned rank = domain.size();
  auto dependences = findDependences(map);
  llvm::SmallBitVector isRow(rank, true);
  // A dim of one element is nobody's.
  llvm::SmallBitVector isTrivial(rank);
  for (unsigned i = 0; i < rank; ++i)
    isTrivial[i] = domain[i].isConstant(1);
  // The rows are those of the reductions that go through most.
  int64_t most = 0;
  for (auto reduce : map.getBody().front().getOps<kernel::ReduceOp>()) {
    int64_t elements = cpu::estimate(sym::product(reduce.getExtents().getSizes()));
    llvm::SmallBitVector dims = dependences[reduce] | isTrivial;
    reduced = std::max(reduced, elements);
    if (!dims.all() && elements > most) {
      most = elements;
      isRow = dims;
    }
  }
  if (most)
    reduced = most;

  auto accesses = cpu::collectAccesses(map.getBody());
  for (unsigned i = 0; i < rank;) {
    unsigned end = i + 1;
    while (end < rank && isRow[end] == isRow[i])
      ++end;
    auto groups = cpu::collapseDims(i, ArrayRef(domain).slice(i, end - i), accesses);
    llvm::append_range(isRow[i] ? rows : columns, groups);
    i = end;
  }
  findWalks(map);
  if (map->getParentOp()->hasAttr(alignedAttrName) && walksAlong(map, dependences))
    findVector(map);
}

/// Whether neighbours, of elements and in what a row's threads reduce together, are neighbours in
/// all memory that distinguishes them: otherwise threads that are neighbours should be.
bool MapDims::walksAlong(kernel::MapOp map,
                         const DenseMap<Operation *, llvm::SmallBitVector> &dependences) {
  auto isAlong = [](ArrayRef<cpu::Access> accesses, sym::Expr dim) {
    return llvm::all_of(accesses, [&](const cpu::Access &access) {
      cpu::Walk walk = cpu::classify(access.expr, dim);
      return !access.isOffset || walk == cpu::Walk::Consecutive || walk == cpu::Walk::Uniform;
    });
  };
  const auto &last = columns.empty() ? rows : columns;
  if (!last.empty() && !(reduced && columns.empty()) &&
      !isAlong(cpu::collectAccesses(map.getBody()), last.back().lastDim()))
    return false;
  for (auto reduce : map.getBody().front().getOps<kernel::ReduceOp>()) {
    bool isOfElement = llvm::any_of(columns, [&](const cpu::DimGroup &group) {
      return dependences.lookup(reduce).test(group.first);
    });
    unsigned numDims = domain.size() + reduce.getExtents().getSizes().size();
    if (!isOfElement &&
        !isAlong(cpu::collectAccesses(reduce.getBody()), sym::Expr::dim(numDims - 1)))
      return false;
  }
  return true;
}

void MapDims::findVector(kernel::MapOp map) {
  int64_t widest = 1;
  auto include = [&](Value tensor) {
    Type storage = cpu::getStorageType(cast<RankedTensorType>(tensor.getType()).getElementType());
    widest = std::max<int64_t>(widest, storage.isIntOrFloat() ? storage.getIntOrFloatBitWidth() / 8
                                                              : vectorBytes);
  };
  llvm::for_each(map.getResults(), include);
  sym::Assumptions assumptions = kernel::getAssumptions(&map.getBody());
  if (reduced) {
    // The widest of what is read decides: the loops have no more values than registers hold.
    map.walk([&](kernel::ReadOp read) { include(read.getTensor()); });
    int64_t elements = std::min(vectorBytes / widest, maxRowVector);
    if (columns.empty() || assumptions.isMultipleOf(columns.back().extent, elements))
      vector = elements;
    return;
  }
  int64_t elements = vectorBytes / widest;
  if (columns.empty() && !rows.empty() && assumptions.isMultipleOf(rows.back().extent, elements) &&
      cpu::estimate(sym::product(rowExtents())) >= manyElements * elements)
    vector = elements;
}

void MapDims::findWalks(kernel::MapOp map) {
  if (rows.empty() || !reduced)
    return;
  sym::Expr row = rows.back().lastDim();
  unsigned rank = domain.size();
  bool alongRows = false, alongReduced = false;
  for (auto reduce : map.getBody().front().getOps<kernel::ReduceOp>()) {
    sym::Expr last = sym::Expr::dim(rank + reduce.getExtents().getSizes().size() - 1);
    for (const cpu::Access &access : cpu::collectAccesses(reduce.getBody())) {
      if (!access.isOffset)
        continue;
      alongRows |= cpu::classify(access.expr, row) == cpu::Walk::Consecutive;
      alongReduced |= cpu::classify(access.expr, last) == cpu::Walk::Consecutive;
    }
  }
  rowsAreConsecutive = alongRows && !alongReduced && cpu::estimate(rows.back().extent) >= warpSize;
}

static int64_t chooseTeam(const MapDims &dims) {
  int64_t elements = std::max(dims.reduced, cpu::estimate(sym::product(dims.columnExtents())));
  if (!dims.reduced || dims.rowsAreConsecutive || elements < minWarpRow)
    return 1;
  int64_t numRows = cpu::estimate(sym::product(dims.rowExtents()));
  bool isLong = elements > maxWarpRow || (numRows < fewRows && elements >= 2 * usualThreads);
  return !isLong ? warpSize : elements >= 16 * usualThreads ? 2 * usualThreads : usualThreads;
}

FailureOr<KernelPlan> cuda::planMap(kernel::FuncOp func) {
  auto map = cast<kernel::MapOp>(func.getRoot());
  if (failed(cpu::verifyValueTypes(map)))
    return failure();
  MapDims dims(map);
  kernel::ScheduleAttr schedule = func.getScheduleAttr();
  if (!schedule) {
    int64_t team = chooseTeam(dims), threads = std::max(team, usualThreads);
    int64_t lanes = dims.reduced && team == 1 ? 1 : dims.vector;
    schedule = kernel::ScheduleAttr::get(func.getContext(), {team}, {threads}, lanes,
                                         /*stage=*/false);
  }
  auto isOne = [](ArrayRef<int64_t> list) { return list.size() == 1; };
  if (!isOne(schedule.getTile()) || !isOne(schedule.getBlock()))
    return func.emitError("a map's schedule needs tile = [team] and block = [threads]");
  int64_t team = schedule.getTile()[0], threads = schedule.getBlock()[0];
  if (threads < warpSize || threads > 1024 || !llvm::isPowerOf2_64(threads) ||
      !llvm::is_contained({int64_t(1), warpSize, threads}, team))
    return func.emitError("a map's schedule needs a power of two of threads, 32 to 1024, and a "
                          "team of one, a warp or all of them");
  bool isInRow = dims.reduced;
  if (schedule.getLanes() != 1 && (isInRow == (team == 1) || schedule.getLanes() != dims.vector))
    return func.emitError("a map's schedule has lanes that its loops are no multiple of");
  sym::Expr numRows = sym::product(dims.rowExtents()).floorDiv(isInRow ? 1 : schedule.getLanes());
  return KernelPlan{schedule, numRows.ceilDiv(threads / team), threads};
}

namespace {
class MapEmitter {
public:
  MapEmitter(DeviceFrame &frame, kernel::MapOp map)
      : frame(frame), map(map), body(frame, map.getBody()), dims(map), position(dims.domain.size()),
        team(frame, frame.func.getScheduleAttr().getTile()[0]),
        vector(frame.func.getScheduleAttr().getLanes()) {
    if (dims.reduced)
      team.vector = vector;
  }

  void emit() {
    body.setLanes(1);
    for (auto [i, extent] : llvm::enumerate(dims.domain))
      if (extent.isConstant(1))
        body.setDim(i, 0);
    int64_t rowsPerBlock = frame.numThreads / team.size;
    sym::Expr numRows = frame.assumptions.simplify(
        sym::product(dims.rowExtents()).floorDiv(dims.reduced ? 1 : vector));
    sym::Expr block = frame.addVariable(frame.block, numRows.ceilDiv(rowsPerBlock));
    sym::Expr inBlock =
        rowsPerBlock == 1 ? sym::Expr(0) : frame.addVariable(team.number, rowsPerBlock);
    sym::Expr row = frame.assumptions.simplify(rowsPerBlock * block + inBlock);
    frame.emitIf(frame.emitLess(row, numRows), [&] {
      sym::Expr variable = frame.named(row, numRows);
      vector == 1 || dims.reduced ? emitRow(variable) : emitElements(dims.rows, variable);
    });
  }

private:
  void bind(ArrayRef<cpu::DimGroup> groups, ArrayRef<sym::Expr> extents, sym::Expr linear) {
    for (auto [group, value] : llvm::zip(groups, sym::delinearize(linear, extents))) {
      bindGroup(group, frame.named(value, group.extent));
    }
  }

  void bindGroup(const cpu::DimGroup &group, sym::Expr variable) {
    for (auto [i, index] : llvm::enumerate(group.delinearize(variable)))
      position[group.first + i] = frame.assumptions.simplify(index);
    group.bind(body, variable);
  }

  void emitRow(sym::Expr row) {
    cpu::BodyEmitter::Scope scope(body);
    bind(dims.rows, dims.rowExtents(), row);
    body.setTeam(team.size > 1 ? &team : nullptr);
    body.emitAvailable();
    if (dims.columns.empty()) {
      SmallVector<Value> values = body.emitYield();
      body.setTeam(nullptr);
      frame.emitIf(isLeader(), [&] { storeElements(values); });
      return;
    }
    body.setTeam(nullptr);
    sym::Expr numColumns =
        frame.assumptions.simplify(sym::product(dims.columnExtents()).floorDiv(vector));
    Value first = team.size > 1 ? team.rank : frame.constant(0);
    frame.emitLoop(first, frame.emit(numColumns), team.size, {},
                   [&](Value iv, ValueRange) -> SmallVector<Value> {
                     emitElements(dims.columns, frame.addVariable(iv, numColumns));
                     return {};
                   });
  }

  /// `vector` neighbouring elements: all are computed before the first is stored, so that loads and
  /// stores can be made one each.
  void emitElements(ArrayRef<cpu::DimGroup> groups, sym::Expr number) {
    cpu::BodyEmitter::Scope scope(body);
    const cpu::DimGroup &last = groups.back();
    auto extents = llvm::map_to_vector(groups, [](const cpu::DimGroup &g) { return g.extent; });
    extents.back() = frame.assumptions.simplify(extents.back().floorDiv(vector));
    SmallVector<sym::Expr> linear = sym::delinearize(number, extents);
    for (auto [group, value] : llvm::zip(groups.drop_back(), linear))
      bindGroup(group, frame.named(value, group.extent));
    sym::Expr inner = vector * frame.named(linear.back(), extents.back());
    body.emitAvailable();
    SmallVector<SmallVector<Value>> values;
    for (int64_t i = 0; i < vector; ++i) {
      cpu::BodyEmitter::Scope scope(body);
      bindGroup(last, frame.assumptions.simplify(inner + i));
      values.push_back(body.emitYield());
    }
    for (int64_t i = 0; i < vector; ++i) {
      cpu::BodyEmitter::Scope scope(body);
      bindGroup(last, frame.assumptions.simplify(inner + i));
      storeElements(values[i]);
    }
  }

  Value isLeader() {
    if (team.size == 1)
      return {};
    return arith::CmpIOp::create(frame.builder, frame.loc, arith::CmpIPredicate::eq, team.rank,
                                 frame.constant(0));
  }

  void storeElements(ArrayRef<Value> values) {
    sym::Expr offset = sym::linearize(position, dims.domain);
    for (auto [i, value] : llvm::enumerate(values)) {
      auto type = cast<RankedTensorType>(map.getResult(i).getType());
      body.store(frame.resultBuffer(i), type.getElementType(), offset, value);
    }
  }

  DeviceFrame &frame;
  kernel::MapOp map;
  cpu::BodyEmitter body;
  MapDims dims;
  SmallVector<sym::Expr> position;
  ThreadTeam team;
  int64_t vector;
};
} // namespace

LogicalResult cuda::emitMap(DeviceFrame &frame, kernel::MapOp map) {
  MapEmitter(frame, map).emit();
  return success();
}
