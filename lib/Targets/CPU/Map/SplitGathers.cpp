// cpu-split-gathers: has a map of its own gather along one dim what a map gathers along two.
#include "CPU/Map/MapPlan.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Targets/CPU/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/DebugLog.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "cpu-split-gathers"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUSPLITGATHERS
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

/// A value of a map's body as it depends on one of the map's dims.
struct Dependence {
  enum Kind {
    None,
    Row,   // as the row of tensors that `row` says, and in no other way
    Other, // in another way
  } kind = None;
  Value row = {};
  sym::Expr numRows = 0;

  Dependence join(const Dependence &other) const {
    if (kind == None || other.kind == None)
      return kind == None ? other : *this;
    bool isSame = kind == Row && other.kind == Row && row == other.row && numRows == other.numRows;
    return isSame ? *this : Dependence{Other};
  }
};

/// Calls `visit` for each operand of `op` and of what is in its regions.
void visitOperands(Operation &op, function_ref<void(Value)> visit) {
  op.walk([&](Operation *inner) { llvm::for_each(inner->getOperands(), visit); });
}

bool usesDim(Operation &op, sym::Expr dim) {
  return op
      .walk([&](Operation *inner) {
        sym::MapAttr map = kernel::getIndexMap(inner);
        bool found = map && llvm::any_of(map.getResults(),
                                         [&](sym::Expr expr) { return expr.dependsOn(dim); });
        return found ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The dim of `read`'s tensor that is at `value`, its value of number `number`; none if it is at
/// something computed from it.
std::optional<size_t> findRowDim(kernel::ReadOp read, size_t number) {
  unsigned firstValue = read.getMap().getNumDims() - read.getValues().size();
  sym::Expr place = sym::Expr::dim(firstValue + number);
  std::optional<size_t> found;
  for (auto [i, expr] : llvm::enumerate(read.getMap().getResults())) {
    if (!expr.dependsOn(place))
      continue;
    if (found || expr != place)
      return std::nullopt;
    found = i;
  }
  return found;
}

/// A map whose parts along `dim` are maps of their own. `columns` is its loop in vectors.
class Split {
public:
  Split(kernel::MapOp map, unsigned dim, const DimGroup &columns)
      : map(map), dim(dim), columns(columns), domain(map.getExtents()) {
    for (Operation &op : map.getBody().front().without_terminator()) {
      Dependence dependence = analyze(op);
      for (Value result : op.getResults())
        dependences[result] = dependence;
    }
    for (Operation &op : map.getBody().front()) {
      bool isUser = op.hasTrait<OpTrait::IsTerminator>() || analyze(op).kind == Dependence::Other;
      if (!isUser)
        continue;
      visitOperands(op, [&](Value operand) {
        if (dependences.lookup(operand).kind == Dependence::Row)
          addRoot(operand);
      });
    }
  }

  bool isEmpty() const { return slices.empty(); }

  /// Makes the parts, and `rest`, in front of the map.
  void create(OpBuilder &b) {
    b.setInsertionPoint(map);
    IRMapping mapping;
    SmallVector<kernel::MapOp> partOf;
    for (auto &[root, slice] : slices)
      partOf.push_back(createPart(b, root, slice.getArrayRef()));
    rest = cast<kernel::MapOp>(b.clone(*map, mapping));
    for (auto [entry, part] : llvm::zip(slices, partOf)) {
      Value root = mapping.lookup(entry.first);
      Dependence dependence = dependences.lookup(entry.first);
      b.setInsertionPoint(root.getDefiningOp());
      sym::IndexMap index{static_cast<unsigned>(domain.size() + 1), {}};
      for (unsigned i = 0; i < domain.size(); ++i)
        index.results.push_back(sym::Expr::dim(i == dim ? domain.size() : i));
      auto read = kernel::ReadOp::create(b, root.getLoc(), part.getResult(0), index,
                                         mapping.lookup(dependence.row));
      root.replaceAllUsesWith(read);
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(rest.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  /// Takes the parts back.
  void erase() {
    rest.erase();
    for (kernel::MapOp part : parts)
      part.erase();
  }

  /// Cycles of the maps that have been made, and of the parts' way through memory.
  double cost(const CPUInfo &target) const {
    double cycles = makeMapPlan(rest, target).cycles;
    for (kernel::MapOp part : parts) {
      auto type = cast<RankedTensorType>(part.getResult(0).getType());
      double bytes = double(estimate(sym::product(part.getExtents()))) *
                     type.getElementType().getIntOrFloatBitWidth() / 8;
      if (bytes > double(target.l2Bytes))
        cycles += 2 * bytes / target.memoryBytesPerSecond() * target.hertz();
      cycles += makeMapPlan(part, target).cycles;
    }
    return cycles;
  }

  SmallVector<kernel::MapOp> parts;
  kernel::MapOp rest;

private:
  Dependence analyze(Operation &op) const {
    Dependence result;
    if (auto read = dyn_cast<kernel::ReadOp>(op))
      if (std::optional<Dependence> row = analyzeRow(read))
        return *row;
    visitOperands(op, [&](Value operand) { result = result.join(dependences.lookup(operand)); });
    bool isPart =
        op.getNumRegions() == 0 && isMemoryEffectFree(&op) && !isa<kernel::IndexedOpInterface>(op);
    if (usesDim(op, sym::Expr::dim(dim)) || (result.kind == Dependence::Row && !isPart))
      return {Dependence::Other};
    return result;
  }

  /// The dependence of a read that depends on the dim by the row alone.
  std::optional<Dependence> analyzeRow(kernel::ReadOp read) const {
    if (usesDim(*read, sym::Expr::dim(dim)) || read.getMask())
      return std::nullopt;
    std::optional<size_t> number;
    for (auto [i, value] : llvm::enumerate(read.getValues())) {
      if (dependences.lookup(value).kind == Dependence::None)
        continue;
      if (number)
        return std::nullopt;
      number = i;
    }
    if (!number)
      return std::nullopt;
    std::optional<size_t> rowDim = findRowDim(read, *number);
    if (!rowDim)
      return std::nullopt;
    return Dependence{Dependence::Row, read.getValues()[*number],
                      sym::getShape(read.getTensor())[*rowDim]};
  }

  /// A part is worth a map of its own if it puts several reads together, of places that differ in a
  /// vector: others cost no more than reading the part does.
  void addRoot(Value root) {
    root = withoutUnary(root);
    if (slices.contains(root) || !isa<FloatType>(root.getType()))
      return;
    llvm::SmallSetVector<Operation *, 16> found;
    SmallVector<Value> pending = {root};
    unsigned numReads = 0;
    while (!pending.empty()) {
      Value value = pending.pop_back_val();
      Operation *op = value.getDefiningOp();
      if (!op || op->getParentRegion() != &map.getBody() || !found.insert(op))
        continue;
      bool isRow = dependences.lookup(value).kind == Dependence::Row;
      numReads += isRow && isa<kernel::ReadOp>(op);
      Value row = isRow ? dependences.lookup(value).row : Value();
      visitOperands(*op, [&](Value operand) {
        if (!isa<kernel::ReadOp>(op) || operand != row)
          pending.push_back(operand);
      });
    }
    bool gathers = llvm::any_of(found, [&](Operation *op) {
      return isa<kernel::IndexOp>(op) && usesDim(*op, columns.lastDim());
    });
    if (numReads < 2 || !gathers)
      return;
    SmallVector<Operation *> ops(found.begin(), found.end());
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    slices[root].insert(ops.begin(), ops.end());
  }

  /// The value that `value` is computed of alone, as a weighted sum is: the same of all rows, which
  /// then have one part, though their weights differ.
  Value withoutUnary(Value value) const {
    llvm::SmallSetVector<Value, 2> rows;
    visitOperands(*value.getDefiningOp(), [&](Value operand) {
      if (dependences.lookup(operand).kind == Dependence::Row)
        rows.insert(operand);
    });
    return rows.size() == 1 ? withoutUnary(rows.front()) : value;
  }

  /// A map of what `slice` computes of each row, or an equal one that has been made already.
  kernel::MapOp createPart(OpBuilder &b, Value root, ArrayRef<Operation *> slice) {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<sym::Expr> shape(domain);
    shape[dim] = dependences.lookup(root).numRows;
    auto part = kernel::MapOp::create(b, root.getLoc(),
                                      TypeRange(sym::getTensorType(shape, root.getType())));
    b.setInsertionPointToStart(&part.getBody().emplaceBlock());
    IRMapping mapping;
    for (Operation *op : slice)
      if (dependences.lookup(op->getResult(0)).kind == Dependence::Row && isa<kernel::ReadOp>(op))
        cloneRead(b, cast<kernel::ReadOp>(op), mapping);
      else
        b.clone(*op, mapping);
    kernel::YieldOp::create(b, root.getLoc(), mapping.lookup(root));
    for (kernel::MapOp other : parts)
      if (OperationEquivalence::isEquivalentTo(part, other,
                                               OperationEquivalence::IgnoreLocations)) {
        part.erase();
        return other;
      }
    parts.push_back(part);
    return part;
  }

  /// `read` of the row that the part's dim is.
  void cloneRead(OpBuilder &b, kernel::ReadOp read, IRMapping &mapping) {
    Value row = dependences.lookup(read.getResult()).row;
    unsigned firstValue = read.getMap().getNumDims() - read.getValues().size();
    SmallVector<sym::Expr> dims;
    for (unsigned i = 0; i < firstValue; ++i)
      dims.push_back(sym::Expr::dim(i));
    SmallVector<Value> values;
    for (Value value : read.getValues()) {
      dims.push_back(sym::Expr::dim(value == row ? dim : firstValue + values.size()));
      if (value != row)
        values.push_back(mapping.lookupOrDefault(value));
    }
    sym::IndexMap index{static_cast<unsigned>(firstValue + values.size()), {}};
    for (sym::Expr expr : read.getMap().getResults())
      index.results.push_back(expr.substituteDims(dims));
    auto clone = kernel::ReadOp::create(b, read.getLoc(), read.getTensor(), index, values);
    mapping.map(read.getResult(), clone.getResult());
  }

  kernel::MapOp map;
  unsigned dim;
  const DimGroup &columns;
  SmallVector<sym::Expr> domain;
  DenseMap<Value, Dependence> dependences;
  /// The ops, in order, that each root of a part is computed by.
  llvm::MapVector<Value, llvm::SmallSetVector<Operation *, 16>> slices;
};

struct SplitGathers : kiln::cpu::impl::CpuSplitGathersBase<SplitGathers> {
  using CpuSplitGathersBase::CpuSplitGathersBase;

  void runOnOperation() override {
    FailureOr<CPUInfo> target = getTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    SmallVector<kernel::MapOp> pending;
    getOperation()->walk([&](kernel::MapOp map) {
      if (!map->getParentOfType<kernel::FuncOp>()) // of a fold, which has one op
        pending.push_back(map);
    });
    while (!pending.empty()) {
      kernel::MapOp map = pending.pop_back_val();
      if (gathersAlongTwo(map))
        split(map, *target, pending);
    }
  }

private:
  static bool gathersAlongTwo(kernel::MapOp map) {
    return llvm::any_of(map.getBody().getOps<kernel::ReadOp>(),
                        [](kernel::ReadOp read) { return read.getValues().size() > 1; });
  }

  /// Splits `map` along the dim that leaves the fewest cycles, if any does.
  void split(kernel::MapOp map, const CPUInfo &target, SmallVector<kernel::MapOp> &pending) {
    OpBuilder b(map);
    MapPlan plan = makeMapPlan(map, target);
    if (!plan.columns)
      return;
    double fewest = plan.cycles;
    std::optional<Split> best;
    for (unsigned dim = 0; dim < map.getExtents().size(); ++dim) {
      Split candidate(map, dim, *plan.columns);
      if (candidate.isEmpty())
        continue;
      candidate.create(b);
      double cycles = candidate.cost(target);
      LDBG() << "along dim " << dim << llvm::format(": %.0f cycles, of %.0f", cycles, fewest);
      if (cycles >= fewest) {
        candidate.erase();
        continue;
      }
      if (best)
        best->erase();
      fewest = cycles;
      best.emplace(std::move(candidate));
    }
    if (!best)
      return;
    emitRemark(RemarkKind::Done, map, getArgument(), "Split", [&] {
      return RemarkText{"gathers along one dim first, in a map of its own",
                        llvm::formatv("together it would take {0:f0} cycles", plan.cycles), fewest};
    });
    llvm::append_range(pending, best->parts);
    map->replaceAllUsesWith(best->rest);
    map.erase();
  }
};

} // namespace
