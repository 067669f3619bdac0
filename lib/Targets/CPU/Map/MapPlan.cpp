// Chooses how a kernel.map is run: which dim in vectors, what a task is.
#include "CPU/Map/MapPlan.h"
#include "kiln/Transforms/Kernel/MapDims.h"
#include "llvm/Support/DebugLog.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "cpu-choose-schedule"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

int64_t MapPlan::scratchBytes() const {
  if (!kept.empty())
    return kept.back().offset + kept.back().bytes;
  return streamed.empty() ? 0 : streamed.back().end;
}

sym::Expr MapPlan::numRows() const {
  sym::Expr count = 1;
  for (const DimGroup &group : rows)
    count = count * group.extent;
  return count;
}

sym::Expr MapPlan::numColumnBlocks() const {
  return columnBlock ? columns->extent.ceilDiv(columnBlock) : sym::Expr(1);
}

namespace {

/// Steps of a kernel.iterate.
constexpr double typicalSteps = 32;

/// The body as the cost model sees it.
class MapCost {
public:
  MapCost(kernel::MapOp map, const CPUInfo &target)
      : accessCost(target.accessCost), elementCost(target.elementCost),
        opCost(1.0 / double(target.opRate)), fmaCost(1.0 / double(target.fmaUnits)),
        functionCost(target.functionCost), map(map), domain(map.getExtents()),
        accesses(collectAccesses(map.getBody())) {
    nativeLanes = preferredLanes(map.getBody(), target);
    offset = sym::linearize(sym::IndexMap::identity(domain.size()).results, domain);
    dims = kernel::findUsedDims(map);
  }

  SmallVector<DimGroup> groups() const {
    SmallVector<Access> all(accesses);
    all.push_back({map, true, offset});
    return collapseDims(0, domain, all);
  }

  /// Map dims that `op`, directly in the body, depends on.
  const llvm::SmallBitVector &dimsOf(Operation *op) const { return dims.find(op)->second; }
  static bool touches(const llvm::SmallBitVector &used, const DimGroup &group) {
    for (unsigned i = 0; i < group.count; ++i)
      if (used[group.first + i])
        return true;
    return false;
  }

  /// Cycles of the whole map with `loops` and, in vectors, loop number `vector` (or none).
  double cost(ArrayRef<DimGroup> loops, std::optional<size_t> vector) const {
    double cycles = valueCost(loops, vector);
    double stores = vector ? std::ceil(double(estimate(loops[*vector].extent)) / nativeLanes) : 1;
    for (auto [i, loop] : llvm::enumerate(loops))
      stores *= vector == i ? 1 : estimate(loop.extent);
    double storeCost = accessCost;
    if (vector && walk(offset, loops[*vector]) != Walk::Consecutive)
      storeCost = 2 * elementCost * nativeLanes;
    return cycles + stores * storeCost * map.getNumResults();
  }

  /// Cycles of the whole map where steps of loop number `stepped` are written out together as in
  /// `window`. Inside they share what they read, bounds are known, and loads come beside arithmetic.
  double windowCost(ArrayRef<DimGroup> loops, size_t vector, size_t stepped,
                    const WindowPlan &window) const {
    sym::Expr step = loops[stepped].lastDim();
    double arithmetic = 0, loads = 0, outside = 0;
    map.getBody().walk([&](Operation *op) {
      double count = iterations(op, /*varying=*/true);
      double alone = costOf(op, &loops[vector]);
      if (auto read = dyn_cast<kernel::ReadOp>(op)) {
        // What all steps read stays in level 1 cache.
        loads += count * opCost * sharedReads(read, step, window.steps);
        outside += count * (readsAtStep(read, step) ? alone : std::min(alone, opCost));
        return;
      }
      outside += count * alone;
      if (!isa<kernel::InsideOp>(op) && !isOfInside(op))
        arithmetic += count * (isFused(op) ? 0 : isSumOfProducts(op) ? fmaCost : alone);
    });
    double stores = accessCost * map.getNumResults(), positions = 1;
    for (auto [i, loop] : llvm::enumerate(loops))
      positions *= vector == i ? std::ceil(double(estimate(loop.extent)) / nativeLanes)
                               : double(estimate(loop.extent));
    double inside = std::clamp(double(estimate(window.high) - window.low) /
                                   double(std::max<int64_t>(estimate(loops[stepped].extent), 1)),
                               0.0, 1.0);
    for (const WindowPlan::Test &test : window.tests)
      inside *= passingShare(test);
    return positions *
           (inside * std::max(arithmetic, loads + stores) + (1 - inside) * (outside + stores));
  }

  /// Elements of a side of a square that is turned. Larger ones, of bytes, take seconds to compile and
  /// are no faster.
  int64_t turnedLanes() const { return std::min<int64_t>(nativeLanes, 16); }

  /// The cycles of a map whose values are computed in vectors along loop number `turned` and stored
  /// along the last one: a shuffle a cycle turns the squares.
  double turnedCost(ArrayRef<DimGroup> loops, size_t turned) const {
    auto lanes = static_cast<double>(turnedLanes());
    auto across = static_cast<double>(estimate(loops[turned].extent));
    auto along = static_cast<double>(estimate(loops.back().extent));
    double others = 1;
    for (auto [i, loop] : llvm::enumerate(loops))
      if (i != turned && i + 1 != loops.size())
        others *= static_cast<double>(estimate(loop.extent));
    double squares = std::ceil(across / lanes) * std::ceil(along / lanes);
    double shuffles = squares * lanes * std::log2(lanes);
    double stores = across * std::ceil(along / lanes) * accessCost;
    double values = valueCost(loops, turned) * static_cast<double>(nativeLanes) / lanes *
                    std::ceil(along / lanes) * lanes / along;
    return values + others * (shuffles + stores) * map.getNumResults();
  }

  /// Values may be computed so: the body is written out for each step of a square, and all values
  /// are what shuffles take.
  bool isTurnable() const {
    constexpr size_t mostOps = 24;
    Block &block = map.getBody().front();
    return nativeLanes > 1 && llvm::range_size(block) <= mostOps &&
           llvm::all_of(block,
                        [](Operation &op) {
                          return op.getNumRegions() == 0 &&
                                 op.getDialect()->getNamespace() !=
                                     math::MathDialect::getDialectNamespace();
                        }) &&
           llvm::all_of(map.getResultTypes(), [](Type type) {
             Type element = cast<RankedTensorType>(type).getElementType();
             return element.isIntOrFloat() && !element.isInteger(1);
           });
  }

private:
  /// Cycles of all values.
  double valueCost(ArrayRef<DimGroup> loops, std::optional<size_t> vector) const {
    double cycles = 0;
    for (Operation &op : map.getBody().front()) {
      double times = 1;
      const llvm::SmallBitVector &used = dimsOf(&op);
      bool varying = vector && touches(used, loops[*vector]);
      for (auto [i, loop] : llvm::enumerate(loops)) {
        if (!touches(used, loop))
          continue;
        double extent = estimate(loop.extent);
        times *= vector == i ? std::ceil(extent / nativeLanes) : extent;
      }
      op.walk([&](Operation *inner) {
        cycles +=
            times * iterations(inner, varying) * costOf(inner, varying ? &loops[*vector] : nullptr);
      });
    }
    return cycles;
  }

public:
  /// Reductions that are computed outside the loop in vectors.
  SmallVector<kernel::ReduceOp> uniformReduces(std::optional<DimGroup> vector) const {
    SmallVector<kernel::ReduceOp> result;
    for (auto reduce : map.getBody().getOps<kernel::ReduceOp>())
      if (!vector || !touches(dimsOf(reduce), *vector))
        result.push_back(reduce);
    return result;
  }

  /// Cycles of a row in which kept elements are not computed again, less those of storing and loading them.
  double savedCost(ArrayRef<KeptElements> kept, const DimGroup &columns) const {
    double cycles = 0;
    llvm::SmallPtrSet<Operation *, 8> saved;
    for (const KeptElements &elements : kept) {
      for (Operation *op : elements.ops)
        if (saved.insert(op).second)
          cycles += costOf(op, &columns);
      cycles -= 2 * accessCost;
    }
    return cycles * std::ceil(double(estimate(columns.extent)) / double(nativeLanes));
  }

  double bodyCost() const {
    double cycles = 0;
    map.getBody().walk([&](Operation *op) { cycles += costOf(op, nullptr); });
    return cycles;
  }

  int64_t nativeLanes;

private:
  /// How often `op` runs for each run of the body's op that holds it. A reduction that does not
  /// depend on the vector dim is vectorised itself.
  double iterations(Operation *op, bool varying) const {
    double count = 1;
    for (Operation *parent = op->getParentOp(); parent != map; parent = parent->getParentOp())
      if (auto reduce = dyn_cast<kernel::ReduceOp>(parent)) {
        double total = estimate(sym::product(reduce.getExtents().getSizes()));
        count *= varying ? total : std::ceil(total / nativeLanes);
      } else if (isa<kernel::IterateOp>(parent)) {
        count *= typicalSteps;
      }
    return count;
  }

  double costOf(Operation *op, const DimGroup *vector) const {
    if (op->getDialect()->getNamespace() == math::MathDialect::getDialectNamespace())
      return functionCost;
    if (!isa<kernel::IndexedOpInterface>(op))
      return op->getNumRegions() || isa<kernel::YieldOp, arith::ConstantOp>(op) ? 0 : opCost;
    double total = 0;
    for (const Access &access : accesses) {
      if (access.op != op)
        continue;
      Walk how = vector ? walk(access.expr, *vector) : innerWalk(access);
      bool far = how == Walk::Strided || how == Walk::Irregular;
      bool isData = isa<kernel::ReadOp>(op) && !access.isOffset;
      // Places that no single stride gives take divisions, too.
      double places = how == Walk::Irregular && access.isOffset ? 2 : 1;
      if (access.isOffset || isData)
        total += far || isData ? places * elementCost * nativeLanes : accessCost;
      else
        total += opCost;
    }
    return total;
  }

  //===-- Windows --------------------------------------------------------------------------===//

  static bool readsAtStep(kernel::ReadOp read, sym::Expr step) {
    return llvm::any_of(read.getMap().getResults(),
                        [&](sym::Expr result) { return result.dependsOn(step); });
  }

  /// The reads that are left of one where `steps` steps share them.
  static double sharedReads(kernel::ReadOp read, sym::Expr step, int64_t steps) {
    if (!readsAtStep(read, step))
      return 1 / double(steps);
    auto reduce = read->getParentOfType<kernel::ReduceOp>();
    if (!reduce)
      return 1;
    ArrayRef<sym::Expr> extents = reduce.getExtents().getSizes();
    unsigned first = kernel::getDimExtents(&reduce.getBody()).size() - extents.size();
    // The place along the axis that the steps move on: of each step and each dim of the window.
    for (sym::Expr result : read.getMap().getResults()) {
      if (!result.dependsOn(step))
        continue;
      llvm::SmallDenseSet<int64_t> places;
      int64_t all = 0;
      for (auto [i, extent] : llvm::enumerate(extents)) {
        sym::Expr dim = sym::Expr::dim(first + i);
        std::optional<sym::Linear> ofDim = sym::splitLinear(result, dim);
        std::optional<sym::Linear> ofStep = sym::splitLinear(result, step);
        if (!result.dependsOn(dim) || !ofDim || !ofStep || !ofDim->coefficient.isConstant() ||
            !ofStep->coefficient.isConstant() || !extent.isConstant())
          continue;
        for (int64_t j = 0; j < *extent.constant(); ++j)
          for (int64_t k = 0; k < steps; ++k, ++all)
            places.insert(j * *ofDim->coefficient.constant() + k * *ofStep->coefficient.constant());
      }
      return all == 0 ? 1 : double(places.size()) / double(all);
    }
    return 1;
  }

  /// A choice by a bound that is known inside.
  static bool isOfInside(Operation *op) {
    auto select = dyn_cast<arith::SelectOp>(op);
    return select && select.getCondition().getDefiningOp<kernel::InsideOp>();
  }

  /// The sum of a reduction of products.
  static bool isSumOfProducts(Operation *op) {
    auto reduce = dyn_cast<kernel::ReduceOp>(op->getParentOp());
    return reduce && isa<arith::AddFOp>(op) && op->getParentRegion() == &reduce.getCombine() &&
           reduce.getBody().front().getTerminator()->getOperand(0).getDefiningOp<arith::MulFOp>();
  }

  /// A product that is part of a multiplication and addition.
  static bool isFused(Operation *op) {
    auto reduce = dyn_cast<kernel::ReduceOp>(op->getParentOp());
    return reduce && isa<arith::MulFOp>(op) &&
           reduce.getBody().front().getTerminator()->getOperand(0) == op->getResult(0) &&
           isa<arith::AddFOp>(reduce.getCombine().front().front());
  }

  /// The share of a loop's steps that pass a test of a window's bounds; 1 if that is not known.
  double passingShare(const WindowPlan::Test &test) const {
    std::optional<int64_t> bound = test.bound.constant();
    for (auto [i, size] : llvm::enumerate(domain)) {
      sym::Expr dim = sym::Expr::dim(i);
      if (!test.first.dependsOn(dim))
        continue;
      std::optional<sym::Linear> first = sym::splitLinear(test.first, dim);
      std::optional<sym::Linear> last = sym::splitLinear(test.last, dim);
      if (!first || !last || !bound)
        return 1;
      std::optional<int64_t> stride = first->coefficient.constant(), from = first->rest.constant(),
                             to = last->rest.constant();
      if (!stride || !from || !to || *stride <= 0)
        return 1;
      double low = std::max(0.0, std::ceil(double(-*from) / double(*stride)));
      double high = std::floor(double(*bound - 1 - *to) / double(*stride)) + 1;
      auto extent = double(std::max<int64_t>(estimate(size), 1));
      return std::clamp((std::min(high, extent) - low) / extent, 0.0, 1.0);
    }
    return 1;
  }

  /// For a read in a reduction that is vectorised on its own: along the best of its dims.
  Walk innerWalk(const Access &access) const {
    auto reduce = access.op->getParentOfType<kernel::ReduceOp>();
    if (!reduce)
      return Walk::Uniform;
    unsigned end = kernel::getDimExtents(&reduce.getBody()).size();
    Walk best = Walk::Irregular;
    for (unsigned i = end - reduce.getExtents().getSizes().size(); i < end; ++i)
      best = std::min(best, classify(access.expr, sym::Expr::dim(i)));
    return best;
  }

  static Walk walk(sym::Expr expr, const DimGroup &group) {
    if (group.count == 1)
      return classify(expr, group.lastDim());
    sym::Expr variable = sym::Expr::symbol("column");
    sym::Assumptions assumptions;
    std::optional<int64_t> extent = group.extent.constant();
    assumptions.setRange(variable, {0, extent ? std::optional(*extent - 1) : std::nullopt});
    SmallVector<sym::Expr> inputs;
    for (unsigned i = 0; i < group.first; ++i)
      inputs.push_back(sym::Expr::dim(i));
    llvm::append_range(inputs, group.delinearize(variable));
    return classify(assumptions.simplify(expr.substituteDims(inputs)), variable);
  }

  /// Cycles of a vector; `elementCost` those of one of its elements, and `opCost` of arithmetic.
  double accessCost, elementCost, opCost, fmaCost, functionCost;
  mutable kernel::MapOp map; // accessors of ops are not const
  SmallVector<sym::Expr> domain;
  SmallVector<Access> accesses;
  sym::Expr offset;
  DenseMap<Operation *, llvm::SmallBitVector> dims;
};

} // namespace

static DimGroup merge(const DimGroup &outer, const DimGroup &inner) {
  DimGroup result = outer;
  result.count += inner.count;
  result.extent = outer.extent * inner.extent;
  llvm::append_range(result.extents, inner.extents);
  return result;
}

namespace {
/// The loops of a map, one of them perhaps in vectors.
struct MapLoops {
  SmallVector<DimGroup> loops;
  std::optional<size_t> vector = {};
  /// The loop along which values are computed instead.
  std::optional<size_t> turned = {};
};
} // namespace

/// The loops that take the fewest cycles.
static MapLoops chooseLoops(const MapCost &model, MapPlan &plan) {
  MapLoops result{model.groups()};
  double &best = plan.cycles;
  best = plan.scalarCycles = model.cost(result.loops, std::nullopt);
  auto consider = [&](ArrayRef<DimGroup> candidate, size_t i) {
    double cost = model.cost(candidate, i);
    LDBG() << "dims from " << candidate[i].first << " to "
           << candidate[i].first + candidate[i].count - 1
           << " in vectors: " << llvm::format("%.0f cycles, of %.0f", cost, best);
    if (cost >= best)
      return false;
    best = cost;
    result.vector = i;
    return true;
  };
  if (model.nativeLanes == 1)
    return result;
  for (size_t i = result.loops.size(); i-- > 0;)
    consider(result.loops, i);
  if (result.loops.size() > 1 && model.isTurnable() &&
      2 * estimate(result.loops.back().extent) >= model.turnedLanes())
    for (size_t i = 0; i + 1 < result.loops.size(); ++i) {
      double cost = model.turnedCost(result.loops, i);
      LDBG() << "dims from " << result.loops[i].first
             << " turned: " << llvm::format("%.0f cycles, of %.0f", cost, best);
      if (cost >= best)
        continue;
      best = cost;
      result.vector = result.loops.size() - 1;
      result.turned = i;
    }
  // Innermost dims too short for a vector run together with the next ones, at the price of gathers.
  SmallVector<DimGroup> merged(result.loops);
  while (merged.size() > 1 && estimate(merged.back().extent) < model.nativeLanes) {
    DimGroup inner = merged.pop_back_val();
    merged.back() = merge(merged.back(), inner);
    if (consider(merged, merged.size() - 1)) {
      result.loops = merged;
      result.turned = std::nullopt;
    }
  }
  return result;
}

/// The loops with dims [first, first + count) in vectors; none if these are not whole loops.
static std::optional<MapLoops> findLoops(const MapCost &model, ArrayRef<int64_t> dims) {
  MapLoops result{model.groups()};
  if (dims.empty())
    return result;
  SmallVector<DimGroup> &loops = result.loops;
  for (size_t i = 0; i < loops.size(); ++i) {
    if (loops[i].first != dims.front())
      continue;
    while (i + 1 < loops.size() && loops[i].count < dims.size()) {
      loops[i] = merge(loops[i], loops[i + 1]);
      loops.erase(loops.begin() + i + 1);
    }
    if (loops[i].count != dims.size())
      return std::nullopt;
    result.vector = i;
    return result;
  }
  return std::nullopt;
}

/// Deals the loops out: those of a row number, those inside a row, the one in vectors. `steps` are
/// those of a window; none: as many as are best.
static void divideLoops(const MapCost &model, kernel::MapOp map, const MapLoops &chosen,
                        std::optional<int64_t> steps, const CPUInfo &target, MapPlan &plan) {
  SmallVector<DimGroup> outer(chosen.loops);
  if (chosen.turned)
    plan.turned = outer[*chosen.turned];
  if (chosen.vector)
    plan.columns = outer[*chosen.vector];
  llvm::erase_if(outer, [&](const DimGroup &loop) {
    auto is = [&](const std::optional<DimGroup> &other) {
      return other && other->first == loop.first;
    };
    return is(plan.columns) || is(plan.turned);
  });
  // A row holds the loops inside of which no reduction would be repeated.
  SmallVector<kernel::ReduceOp> reduces = model.uniformReduces(plan.columns);
  for (kernel::ReduceOp reduce : reduces)
    plan.reductions.push_back({reduce, {}});
  size_t numRowLoops = outer.size();
  for (kernel::ReduceOp reduce : reduces) {
    size_t known = 0;
    for (auto [i, loop] : llvm::enumerate(outer))
      if (MapCost::touches(model.dimsOf(reduce), loop))
        known = i + 1;
    numRowLoops = std::min(numRowLoops, known);
  }
  if (plan.columns && !plan.turned && reduces.empty() && !outer.empty() && steps != 1)
    if ((plan.window = makeWindowPlan(map, *plan.columns, outer.back(), target, steps)))
      numRowLoops = outer.size() - 1;
  plan.rows.assign(outer.begin(), outer.begin() + numRowLoops);
  plan.inner.assign(outer.begin() + numRowLoops, outer.end());
}

FailureOr<MapPlan> cpu::makeMapPlan(kernel::FuncOp func, MapAttr schedule, const CPUInfo &target) {
  auto map = cast<kernel::MapOp>(func.getRoot());
  auto refuse = [&](const Twine &reason) {
    return func.emitError("cannot be run with ") << schedule << ": " << reason;
  };
  MapCost model(map, target);
  std::optional<MapLoops> loops = findLoops(model, schedule.getVector());
  if (!loops)
    return refuse("its dims are not whole loops");
  if (ArrayRef<int64_t> dims = schedule.getTurn(); !dims.empty()) {
    auto *loop = llvm::find_if(loops->loops, [&](const DimGroup &loop) {
      return loop.first == dims.front() && loop.count == dims.size();
    });
    if (loop == loops->loops.end() || loop - loops->loops.begin() == loops->vector)
      return refuse("what it turns is no other whole loop");
    if (!model.isTurnable())
      return refuse("its body is too long to be turned, or has values that are not shuffled");
    loops->turned = loop - loops->loops.begin();
  }
  MapPlan plan;
  divideLoops(model, map, *loops, schedule.getSteps(), target, plan);
  if (plan.window.has_value() != (schedule.getSteps() > 1))
    return refuse("there is no window");
  if (plan.reductions.size() != schedule.getReduceLanes().size())
    return refuse("it has " + Twine(plan.reductions.size()) +
                  " reductions that are the same for all columns");
  for (auto [reduction, lanes, copies] :
       llvm::zip(plan.reductions, schedule.getReduceLanes(), schedule.getReduceCopies())) {
    if (lanes > 1 && preferredLanes(reduction.op.getBody(), target) == 1)
      return refuse("a reduction has values that vectors do not hold");
    reduction.shape = {lanes, copies};
  }
  plan.lanes = schedule.getLanes();
  plan.rowBlock = schedule.getRows();
  plan.columnBlock = schedule.getColumns();
  if (schedule.getStreams()) {
    plan.streamed = findStreamedReductions(map, plan, plan.columnBlock);
    if (plan.streamed.empty())
      return refuse(
          "its reductions are not all of one dim and of numbers that differ from column to column");
  }
  if (schedule.getKeep()) {
    plan.kept = findKeptElements(map, plan, target);
    if (plan.kept.empty())
      return refuse("there is nothing that a reduction could keep of a row");
  }
  return plan;
}

/// All but the loops of `plan`, which has their cycles.
static void completePlan(const MapCost &model, kernel::MapOp map, const MapLoops &loops,
                         const CPUInfo &target, MapPlan &plan) {
  divideLoops(model, map, loops, /*steps=*/std::nullopt, target, plan);
  chooseReductions(
      map, [&](Operation *op) -> const llvm::SmallBitVector & { return model.dimsOf(op); }, target,
      plan);
  double numRows = std::max<int64_t>(1, estimate(plan.numRows()));
  if (plan.window) {
    auto *step = llvm::find_if(
        loops.loops, [&](const DimGroup &loop) { return loop.first == plan.inner.back().first; });
    plan.cycles =
        model.windowCost(loops.loops, *loops.vector, step - loops.loops.begin(), *plan.window);
  }
  // Rows at an edge of a window take longer than others: tasks are as short as if all of them did.
  double rowCycles = (loops.turned ? model.turnedCost(loops.loops, *loops.turned)
                                   : model.cost(loops.loops, loops.vector)) /
                     numRows;
  if (plan.columns) {
    int64_t columns = estimate(plan.columns->extent);
    plan.lanes = plan.turned ? model.turnedLanes() : model.nativeLanes;
    // Two registers at a time hide latencies where a body is short.
    bool divides = columns % (2 * plan.lanes) == 0 || columns >= 32 * plan.lanes;
    if (!plan.window && !plan.turned && model.bodyCost() < double(target.shortBody) &&
        columns >= 4 * plan.lanes && divides)
      plan.lanes *= 2;
    if (std::optional<int64_t> extent = plan.columns->extent.constant())
      while (plan.lanes > 1 && plan.lanes / 2 >= *extent)
        plan.lanes /= 2;
    // A single row of unknown length may be all there is to divide.
    bool isOnlyRow = plan.numRows().isConstant(1) && !plan.columns->extent.isConstant();
    if ((rowCycles > target.maxRowCycles() || isOnlyRow) && plan.reductions.empty()) {
      int64_t part = std::max<int64_t>(1, columns * (double(target.taskCycles) / rowCycles));
      plan.columnBlock = llvm::alignTo(part, plan.lanes);
    }
  }
  if (plan.columns && isWorthStreaming(map, *plan.columns, target)) {
    int64_t block = chooseStreamedColumns(*plan.columns, plan.lanes);
    plan.streamed = findStreamedReductions(map, plan, block);
    if (!plan.streamed.empty())
      plan.columnBlock = block;
  }
  plan.kept = findKeptElements(map, plan, target);
  if (!plan.kept.empty()) {
    double saved = model.savedCost(plan.kept, *plan.columns);
    plan.cycles -= numRows * saved;
    rowCycles -= saved;
  }
  if (!plan.columnBlock)
    plan.rowBlock = chooseRowBlock(plan.numRows(), rowCycles, target);
}

MapPlan cpu::makeMapPlan(kernel::MapOp map, const CPUInfo &target) {
  MapCost model(map, target);
  MapPlan plan;
  MapLoops loops = chooseLoops(model, plan);
  completePlan(model, map, loops, target, plan);
  return plan;
}

std::vector<MapPlan> cpu::makeMapPlans(kernel::MapOp map, const CPUInfo &target) {
  MapCost model(map, target);
  std::vector<MapPlan> plans;
  auto add = [&](const MapLoops &loops) {
    MapPlan &plan = plans.emplace_back();
    plan.cycles = model.cost(loops.loops, loops.vector);
    completePlan(model, map, loops, target, plan);
  };
  MapLoops scalar{model.groups()};
  add(scalar);
  if (model.nativeLanes > 1)
    for (size_t i = 0; i < scalar.loops.size(); ++i)
      add({scalar.loops, i});
  llvm::sort(plans, [](const MapPlan &a, const MapPlan &b) {
    auto first = [](const MapPlan &plan) { return plan.columns ? int(plan.columns->first) : -1; };
    return std::pair(a.cycles, first(a)) < std::pair(b.cycles, first(b));
  });
  return plans;
}

MapAttr cpu::makeMapSchedule(MLIRContext *context, const MapPlan &plan) {
  SmallVector<int64_t> dims;
  if (plan.columns)
    llvm::append_range(
        dims, llvm::seq<int64_t>(plan.columns->first, plan.columns->first + plan.columns->count));
  SmallVector<int64_t> reduceLanes, reduceCopies;
  for (const PlannedReduction &reduction : plan.reductions) {
    reduceLanes.push_back(reduction.shape.lanes);
    reduceCopies.push_back(reduction.shape.copies);
  }
  SmallVector<int64_t> turned;
  if (plan.turned)
    llvm::append_range(
        turned, llvm::seq<int64_t>(plan.turned->first, plan.turned->first + plan.turned->count));
  return MapAttr::get(context, dims, plan.lanes, plan.rowBlock, plan.columnBlock,
                      plan.window ? plan.window->steps : 1, reduceLanes, reduceCopies, turned,
                      !plan.kept.empty(), !plan.streamed.empty());
}

FailureOr<KernelPlan> cpu::planMap(kernel::FuncOp func, const CPUInfo &target) {
  auto map = cast<kernel::MapOp>(func.getRoot());
  if (failed(verifyValueTypes(map)))
    return failure();
  FailureOr<MapAttr> given = getGivenSchedule<MapAttr>(func);
  if (failed(given))
    return failure();
  if (*given) {
    FailureOr<MapPlan> plan = makeMapPlan(func, *given, target);
    if (failed(plan))
      return failure();
    return KernelPlan{*given, plan->grid(), plan->scratchBytes()};
  }
  MapPlan plan = makeMapPlan(map, target);
  KernelPlan result{makeMapSchedule(func.getContext(), plan), plan.grid(), plan.scratchBytes()};
  result.cycles = plan.cycles;
  result.reason =
      llvm::formatv("one element at a time would take {0:f0} cycles", plan.scalarCycles);
  return result;
}
