// Divides the dims of a map among blocks, threads and loops.
#include "CUDA/Map/TransposePlan.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// A row of fewer elements is one thread's, of more than the second number a block's.
static constexpr int64_t minWarpRow = 16, maxWarpRow = 2048;
/// Elements of a row that a thread takes at once, at most.
static constexpr int64_t maxRowVector = 8;
/// Elements of a long row that a thread of a block has, which its registers hold.
static constexpr int64_t elementsOfLongRow = 32;
/// Bytes that a thread should have asked for before it waits for the first, and how many accesses
/// that are at most.
static constexpr int64_t bytesAhead = 64, maxSteps = 4;
/// Elements that each thread of a team across rows reduces, at least: they are under way together.
static constexpr int64_t leastOfTeam = 4;
/// The most threads of such a team; each reads what all have left in shared memory.
static constexpr int64_t maxTeamAcross = 16;
/// More than this is computed of an element: what a thread does takes longer than its memory.
static constexpr int64_t muchWork = 48;

/// Threads that fill a GPU.
static int64_t countBusyThreads(kernel::MapOp map) {
  return usualThreads * getTarget(map).getBusyBlocks();
}

/// The dims of the map on which each of its values depends.
static DenseMap<Operation *, llvm::SmallBitVector> findDependences(kernel::MapOp map) {
  unsigned rank = map.getExtents().size();
  DenseMap<Operation *, llvm::SmallBitVector> result;
  for (Operation &op : map.getBody().front()) {
    llvm::SmallBitVector dims(rank);
    op.walk([&](Operation *inner) {
      if (auto indices = kernel::getIndexMap(inner))
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

MapDims::MapDims(kernel::MapOp map) : domain(map.getExtents()) {
  unsigned rank = domain.size();
  auto dependences = findDependences(map);
  llvm::SmallBitVector isRow(rank, true);
  // A dim of one element is nobody's.
  llvm::SmallBitVector isTrivial(rank);
  for (unsigned i = 0; i < rank; ++i)
    isTrivial[i] = domain[i].isConstant(1);
  // The rows are those of the reductions that go through most.
  int64_t most = 0, mostOfElement = 0;
  for (auto reduce : map.getBody().front().getOps<kernel::ReduceOp>()) {
    int64_t elements = codegen::estimate(sym::product(reduce.getExtents().getSizes()));
    llvm::SmallBitVector dims = dependences[reduce] | isTrivial;
    reduced = std::max(reduced, elements);
    if (dims.all())
      mostOfElement = std::max(mostOfElement, elements);
    else if (elements > most) {
      most = elements;
      isRow = dims;
    }
  }
  // Elements that reduce no less than their row are rows by themselves where that is how memory
  // lies: there are more of them, and what a row shares takes no longer than the rest.
  if (most && mostOfElement >= most) {
    reduced = mostOfElement;
    divide(map, llvm::SmallBitVector(rank, true));
  }
  if (!rowsAreConsecutive) {
    if (most)
      reduced = most;
    divide(map, isRow);
  }
  if (map->getParentOfType<kernel::FuncOp>().getAligned() && walksAlong(map, dependences))
    findVector(map);
  findSteps(map);
}

void MapDims::divide(kernel::MapOp map, const llvm::SmallBitVector &isRow) {
  rows.clear();
  columns.clear();
  unsigned rank = domain.size();
  auto accesses = codegen::collectAccesses(map.getBody());
  for (unsigned i = 0; i < rank;) {
    unsigned end = i + 1;
    while (end < rank && isRow[end] == isRow[i])
      ++end;
    auto groups = codegen::collapseDims(i, ArrayRef(domain).slice(i, end - i), accesses);
    llvm::append_range(isRow[i] ? rows : columns, groups);
    i = end;
  }
  findWalks(map);
}

/// Whether neighbours, of elements and in what a row's threads reduce together, are neighbours in
/// all memory that distinguishes them: otherwise threads that are neighbours should be.
bool MapDims::walksAlong(kernel::MapOp map,
                         const DenseMap<Operation *, llvm::SmallBitVector> &dependences) {
  auto isAlong = [](ArrayRef<codegen::Access> accesses, sym::Expr dim) {
    return llvm::all_of(accesses, [&](const codegen::Access &access) {
      codegen::Walk walk = codegen::classify(access.expr, dim);
      return !access.isOffset || walk == codegen::Walk::Consecutive ||
             walk == codegen::Walk::Uniform;
    });
  };
  const auto &last = columns.empty() ? rows : columns;
  if (!last.empty() && !(reduced && columns.empty()) &&
      !isAlong(codegen::collectAccesses(map.getBody()), last.back().lastDim()))
    return false;
  for (auto reduce : map.getBody().front().getOps<kernel::ReduceOp>()) {
    bool isOfElement = llvm::any_of(columns, [&](const codegen::DimGroup &group) {
      return dependences.lookup(reduce).test(group.first);
    });
    unsigned numDims = domain.size() + reduce.getExtents().getSizes().size();
    if (!isOfElement &&
        !isAlong(codegen::collectAccesses(reduce.getBody()), sym::Expr::dim(numDims - 1)))
      return false;
  }
  return true;
}

void MapDims::findVector(kernel::MapOp map) {
  int64_t widest = 1;
  auto include = [&](Value tensor) {
    Type storage =
        codegen::getStorageType(cast<RankedTensorType>(tensor.getType()).getElementType());
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
  if (!columns.empty() || rows.empty() ||
      codegen::estimate(sym::product(rowExtents())) < countBusyThreads(map) * elements)
    return;
  bool isMultiple = assumptions.isMultipleOf(rows.back().extent, elements);
  if (!isMultiple && rows.size() > 1)
    return;
  vector = elements;
  isRagged = !isMultiple;
}

static int64_t getBytes(kernel::ReadOp read) {
  Type storage =
      codegen::getStorageType(cast<RankedTensorType>(read.getTensor().getType()).getElementType());
  return storage.isIntOrFloat() ? storage.getIntOrFloatBitWidth() / 8 : vectorBytes;
}

void MapDims::findSteps(kernel::MapOp map) {
  if (reduced) {
    map.walk([&](kernel::ReadOp read) {
      if (read->getParentOp() != map)
        registersKept += llvm::divideCeil(getBytes(read), 4);
    });
    return;
  }
  int64_t bytes = 0, work = 0;
  map.walk([&](Operation *op) {
    if (auto read = dyn_cast<kernel::ReadOp>(op))
      bytes += getBytes(read);
    work += isa<math::MathDialect>(op->getDialect()) ? 20 : 1;
  });
  while (steps < maxSteps && 2 * steps * work <= muchWork && bytes * vector * steps < bytesAhead &&
         codegen::estimate(sym::product(rowExtents())) >=
             countBusyThreads(map) * vector * 8 * steps)
    steps *= 2;
}

int64_t MapDims::countKept(int64_t threads) const {
  // A share of the registers; the others are for what is computed.
  int64_t registers = std::min(registersOfBlock / threads, maxRegisters);
  return std::min<int64_t>(2 * elementsOfLongRow,
                           registers * 3 / 5 / std::max<int64_t>(registersKept, 1));
}

void MapDims::findWalks(kernel::MapOp map) {
  if (rows.empty() || !reduced)
    return;
  unsigned rank = domain.size();
  using codegen::Walk;
  // True if neighbours along `dim` are neighbours in some memory that is reduced; what is the same
  // for all of them counts on neither side.
  auto isAlong = [&](sym::Expr dim) {
    bool alongRows = false, alongReduced = false;
    for (auto reduce : map.getBody().front().getOps<kernel::ReduceOp>()) {
      sym::Expr last = sym::Expr::dim(rank + reduce.getExtents().getSizes().size() - 1);
      for (const codegen::Access &access : codegen::collectAccesses(reduce.getBody())) {
        Walk walk = codegen::classify(access.expr, dim);
        if (!access.isOffset || walk == Walk::Uniform)
          continue;
        alongRows |= walk == Walk::Consecutive;
        alongReduced |= codegen::classify(access.expr, last) == Walk::Consecutive;
      }
    }
    return alongRows && !alongReduced;
  };
  for (size_t i = rows.size(); i-- > 0;)
    if (codegen::estimate(rows[i].extent) >= warpSize && isAlong(rows[i].lastDim())) {
      // Neighbouring threads have those rows, wherever the result has them.
      std::rotate(rows.begin() + i, rows.begin() + i + 1, rows.end());
      rowsAreConsecutive = true;
      return;
    }
}

namespace {
/// How many threads share a row, and why.
struct TeamChoice {
  int64_t threads;
  StringRef reason;
  /// Rows of a block whose teams are across each other; 1: they are not.
  int64_t across = 1;
};
} // namespace

/// `threads`, if given, are those of a block.
static TeamChoice chooseTeamAcross(const MapDims &dims, TargetAttr target,
                                   std::optional<int64_t> threads) {
  int64_t numRows = codegen::estimate(sym::product(dims.rowExtents()));
  int64_t blocks = target.getBusyBlocks();
  int64_t most = threads ? std::min(maxTeamAcross, *threads / warpSize) : maxTeamAcross;
  TeamChoice team{1, "neighbouring rows are neighbours in memory"};
  if (!dims.columns.empty())
    return team;
  while (2 * team.threads <= most && numRows * team.threads < usualThreads * blocks &&
         2 * team.threads * leastOfTeam <= dims.reduced)
    team.threads *= 2;
  if (team.threads == 1)
    return team;
  team.reason = "neighbouring rows are neighbours in memory, and too few for a thread each";
  team.across = threads ? *threads / team.threads : warpSize;
  while (!threads && team.across * team.threads < usualThreads && numRows > team.across * blocks)
    team.across *= 2;
  return team;
}

static TeamChoice chooseTeam(const MapDims &dims, TargetAttr target,
                             std::optional<int64_t> threads) {
  int64_t elements = std::max(dims.reduced, codegen::estimate(sym::product(dims.columnExtents())));
  if (!dims.reduced)
    return {1, "elements do not depend on each other"};
  if (dims.rowsAreConsecutive)
    return chooseTeamAcross(dims, target, threads);
  if (elements < minWarpRow)
    return {1, "rows are too short for a warp"};
  int64_t numRows = codegen::estimate(sym::product(dims.rowExtents()));
  if (numRows < target.getSchedulers() * target.getBusyBlocks() && elements >= 2 * usualThreads)
    return {elements >= 16 * usualThreads ? 2 * usualThreads : usualThreads,
            "rows are too few for a warp each"};
  if (elements <= maxWarpRow)
    return {warpSize, "a row is as long as a warp's registers hold"};
  return {std::clamp<int64_t>(llvm::PowerOf2Ceil(llvm::divideCeil(elements, elementsOfLongRow)),
                              usualThreads / 2, 4 * usualThreads),
          "a row is too long for a warp's registers"};
}

/// `threads`, if given, are those of a block, and of a team that is one.
static MapScheduleAttr makeSchedule(MLIRContext *context, const MapDims &dims,
                                    const TeamChoice &choice, std::optional<int64_t> given) {
  int64_t team = choice.threads;
  if (choice.across > 1) {
    int64_t threads = team * choice.across;
    return MapScheduleAttr::get(context, threads, team, choice.across, /*steps=*/1, /*vector=*/1,
                                dims.countKept(threads));
  }
  int64_t threads = given ? *given : team > warpSize ? team : usualThreads;
  team = team > warpSize ? threads : team;
  int64_t vector = dims.reduced && team == 1 ? 1 : dims.vector;
  int64_t keep = team > 1 ? dims.countKept(threads) : 0;
  return MapScheduleAttr::get(context, threads, team, /*across=*/1, dims.steps, vector, keep);
}

/// Blocks of a map that is run like this; fails where it cannot be.
static FailureOr<KernelPlan> planWith(MapScheduleAttr schedule, kernel::FuncOp func,
                                      const MapDims &dims, StringRef reason) {
  bool isInRow = dims.reduced;
  int64_t team = schedule.getTeam(), steps = schedule.getSteps(), vector = schedule.getVector();
  if (!isInRow && team > 1)
    return func.emitError("a map without reductions has no rows for a team of ") << team;
  if (isInRow && steps > 1)
    return func.emitError("a map with reductions has one step, not ") << steps;
  if (schedule.getAcross() > 1 && !dims.columns.empty())
    return func.emitError("a map whose rows have several elements has no teams across ")
           << schedule.getAcross() << " of them";
  if (vector != 1 && (isInRow == (team == 1) || vector != dims.vector))
    return func.emitError("a map's vector of ")
           << vector << " elements, of which its loops are no multiple";
  sym::Expr numRows = sym::product(dims.rowExtents());
  if (!isInRow)
    numRows = numRows.ceilDiv(vector * steps);
  return KernelPlan{schedule, numRows.ceilDiv(schedule.getThreads() / team), schedule.getThreads(),
                    reason};
}

FailureOr<KernelPlan> cuda::planMap(kernel::FuncOp func, std::optional<int64_t> threads) {
  auto map = cast<kernel::MapOp>(func.getRoot());
  if (failed(codegen::verifyValueTypes(map)))
    return failure();
  MapDims dims(map);
  kernel::ScheduleAttrInterface given = func.getScheduleAttr();
  if (auto schedule = dyn_cast_if_present<MapScheduleAttr>(given))
    return planWith(schedule, func, dims, givenReason);
  if (auto schedule = dyn_cast_if_present<TransposedMapScheduleAttr>(given))
    return planTransposedMap(func, dims, schedule, givenReason);
  if (given)
    return emitUnknownSchedule(func);
  if (std::optional<TransposePlan> plan = TransposePlan::choose(map, dims); plan && !threads)
    return planTransposedMap(func, dims, plan->schedule(func.getContext()),
                             "reads have other neighbours in memory than the result");
  TeamChoice team = chooseTeam(dims, getTarget(func), threads);
  return planWith(makeSchedule(func.getContext(), dims, team, threads), func, dims, team.reason);
}

void cuda::storeResults(DeviceFrame &frame, kernel::MapOp map, codegen::BodyEmitter &body,
                        sym::Expr offset, ArrayRef<Value> values) {
  for (auto [i, value] : llvm::enumerate(values)) {
    auto type = cast<RankedTensorType>(map.getResult(i).getType());
    body.store(frame.resultBuffer(i), type.getElementType(), offset, value);
  }
}
