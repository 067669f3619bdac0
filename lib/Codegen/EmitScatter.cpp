// Plans and writes the function of a kernel.scatter. A task owns some of the batch: it writes the
// first value of its elements, unless they have it already, then goes through all places in order,
// so that no two tasks write one element and the last of several writes is the last in order. Places
// of which no two can write one element have tasks of their own.
#include "kiln/Codegen/KernelEmitters.h"
#include "kiln/Codegen/LoopNest.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

/// Whether `value`, of a region of a structured op, depends on dim `dim`.
static bool dependsOnDim(Value value, unsigned dim) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  WalkResult walked = op->walk([&](Operation *inner) {
    if (auto map = kernel::getIndexMap(inner))
      for (sym::Expr result : map.getResults())
        if (result.dependsOn(sym::Expr::dim(dim)))
          return WalkResult::interrupt();
    for (Value operand : inner->getOperands())
      if (!isa<RankedTensorType>(operand.getType()) &&
          !op->isAncestor(operand.getParentBlock()->getParentOp()) && dependsOnDim(operand, dim))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return walked.wasInterrupted();
}

/// True if `value`, a number, is another one for each value of `dim`, whatever else it depends on:
/// it counts along the dim, from where data may say.
static bool countsAlong(Value value, unsigned dim) {
  Operation *op = value.getDefiningOp();
  if (auto index = dyn_cast_or_null<kernel::IndexOp>(op); index && index.getValues().empty()) {
    sym::Expr expr = index.getMap().getResults()[0], here = sym::Expr::dim(dim);
    sym::Expr step = expr.substitute([&](sym::Expr leaf) {
      return leaf == here ? std::optional(here + 1) : std::nullopt;
    }) - expr;
    return step.constant().value_or(0) != 0;
  }
  if (!value.getType().isInteger(64) || !isa_and_present<arith::AddIOp, arith::SubIOp>(op))
    return false;
  Value a = op->getOperand(0), b = op->getOperand(1);
  return (countsAlong(a, dim) && !dependsOnDim(b, dim)) ||
         (countsAlong(b, dim) && !dependsOnDim(a, dim));
}

namespace {
/// The dims of a scatter by the part they play.
struct ScatterDims {
  /// `inPlace`: elements have their first values.
  ScatterDims(kernel::ScatterOp scatter, bool inPlace)
      : extents(scatter.getExtents()), resultDims(scatter.getResultDims()),
        targets(scatter.getNumBatch()), places(targets + scatter.getNumTargets()) {
    // In vectors of the last dim, where every place writes to a whole row of it.
    if (!resultDims.empty() && resultDims.back() < targets &&
        !extents[resultDims.back()].isConstant(1)) {
      ValueRange yielded = scatter.getUpdate().front().getTerminator()->getOperands();
      if (llvm::none_of(yielded.drop_back(),
                        [&](Value value) { return dependsOnDim(value, resultDims.back()); }))
        column = resultDims.back();
    }
    for (int64_t i = 0; i < targets; ++i)
      if (i != column)
        rows.push_back(i);
    if (inPlace && areApart(scatter))
      for (size_t i = places; i < extents.size(); ++i)
        rows.push_back(static_cast<int64_t>(i));
    placesAreRows = !rows.empty() && rows.back() >= places;
  }

  /// A single dim has places, and some target is another one for each of them.
  bool areApart(kernel::ScatterOp scatter) const {
    std::optional<unsigned> dim;
    for (size_t i = places; i < extents.size(); ++i) {
      if (extents[i].isConstant(1))
        continue;
      if (dim)
        return false;
      dim = i;
    }
    ValueRange yielded = scatter.getUpdate().front().getTerminator()->getOperands();
    return dim && llvm::any_of(yielded.take_front(places - targets),
                               [&](Value target) { return countsAlong(target, *dim); });
  }

  SmallVector<sym::Expr> rowExtents() const {
    return llvm::map_to_vector(rows, [&](int64_t i) { return extents[i]; });
  }
  sym::Expr numColumns() const { return column ? extents[*column] : sym::Expr(1); }
  ArrayRef<sym::Expr> targetExtents() const {
    return ArrayRef(extents).slice(targets, places - targets);
  }
  /// Those that a task goes through.
  ArrayRef<sym::Expr> placeExtents() const {
    return ArrayRef(extents).drop_front(placesAreRows ? extents.size() : places);
  }

  SmallVector<sym::Expr> extents;
  SmallVector<int64_t> resultDims;
  int64_t targets, places; // the first dim of each
  std::optional<int64_t> column;
  SmallVector<int64_t> rows;
  bool placesAreRows = false; // the last of `rows`
};

class ScatterEmitter {
public:
  ScatterEmitter(KernelFrame &frame, kernel::ScatterOp scatter)
      : frame(frame), dims(scatter, frame.func.getUpdates().has_value()),
        init(frame, scatter.getInit()), update(frame, scatter.getUpdate()),
        combine(frame, scatter.getCombine()),
        elementType(cast<RankedTensorType>(scatter.getType()).getElementType()),
        position(dims.places) {}

  void emit() {
    auto schedule = getSchedule<ScatterAttr>(frame.func);
    lanes = schedule.getLanes();
    RowTasks tasks{sym::product(dims.rowExtents()), dims.numColumns(), schedule.getRows(),
                   schedule.getColumns()};
    init.setLanes(1);
    update.setLanes(1);
    tasks.emit(frame, lanes, [&](sym::Expr row, sym::Expr first, sym::Expr end) {
      BodyEmitter::Scope initScope(init), updateScope(update);
      firstColumn = first;
      endColumn = end;
      for (auto [dim, value] : llvm::zip(dims.rows, sym::delinearize(row, dims.rowExtents()))) {
        sym::Expr index = frame.assumptions.simplify(value);
        update.setDim(dim, index);
        if (dim >= dims.places)
          continue;
        position[dim] = index;
        init.setDim(dim, index);
      }
      if (!frame.func.getUpdates())
        emitNest(init, dims.targets, dims.targetExtents(), [&](ArrayRef<sym::Expr> target) {
          llvm::copy(target, position.begin() + dims.targets);
          emitColumns(init, [&] {
            init.store(frame.resultBuffer(0), elementType, offset(), init.emitYield().front());
          });
        });
      emitNest(update, dims.places, dims.placeExtents(), [&](ArrayRef<sym::Expr>) { emitPlace(); });
    });
  }

private:
  /// Loops over dims first, first + 1, … of `emitter`.
  void emitNest(BodyEmitter &emitter, unsigned first, ArrayRef<sym::Expr> extents,
                function_ref<void(ArrayRef<sym::Expr>)> body) {
    SmallVector<sym::Expr> values;
    auto nest = [&](auto &&self) -> void {
      emitter.emitAvailable();
      size_t depth = values.size();
      if (depth == extents.size())
        return body(values);
      frame.emitLoop(frame.constant(0), frame.emit(extents[depth]), 1, {},
                     [&](Value iv, ValueRange) -> SmallVector<Value> {
                       BodyEmitter::Scope scope(emitter);
                       values.push_back(frame.addVariable(iv, extents[depth]));
                       emitter.setDim(first + depth, values.back());
                       self(self);
                       values.pop_back();
                       return {};
                     });
    };
    nest(nest);
  }

  /// Runs `body` with all dims of `emitter` bound, for this task's columns.
  void emitColumns(BodyEmitter &emitter, function_ref<void()> body) {
    if (!dims.column)
      return body();
    emitVectorLoop(frame, firstColumn, endColumn, dims.numColumns(), lanes,
                   [&](sym::Expr base, Value laneMask) {
                     BodyEmitter::Scope scope(emitter);
                     mask = laneMask;
                     position[*dims.column] = base + emitter.setLanes(lanes, mask);
                     emitter.setDim(*dims.column, position[*dims.column]);
                     body();
                   });
  }

  sym::Expr offset() {
    SmallVector<sym::Expr> element, sizes;
    for (int64_t dim : dims.resultDims) {
      element.push_back(position[dim]);
      sizes.push_back(dims.extents[dim]);
    }
    return sym::linearize(element, sizes);
  }

  /// The target of a place does not depend on the column.
  void emitPlace() {
    SmallVector<Value> values = update.emitKnown();
    emitWrite(values,
              [&] { emitColumns(update, [&] { emitCombine(update.emitYield().back()); }); });
  }

  /// `values`: an index for each target, then whether to write.
  void emitWrite(ArrayRef<Value> values, function_ref<void()> body) {
    OpBuilder &b = frame.builder;
    Location loc = frame.loc;
    ArrayRef<sym::Expr> sizes = dims.targetExtents();
    Value enabled = values[sizes.size()], inside;
    for (auto [value, size] : llvm::zip(values, sizes)) {
      Value test =
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, value, frame.emit(size));
      inside = inside ? arith::AndIOp::create(b, loc, inside, test).getResult() : test;
    }
    if (!inside)
      inside = arith::ConstantIntOp::create(b, loc, 1, 1);
    auto wanted = scf::IfOp::create(b, loc, enabled, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(wanted.thenBlock());
    auto branch = scf::IfOp::create(b, loc, inside, /*withElseRegion=*/true);
    b.setInsertionPointToStart(branch.elseBlock());
    Value one = arith::ConstantIntOp::create(b, loc, 1, 32);
    LLVM::StoreOp::create(b, loc, one, frame.error);
    b.setInsertionPointToStart(branch.thenBlock());
    for (auto [i, size] : llvm::enumerate(sizes))
      position[dims.targets + i] = frame.addVariable(values[i], size);
    body();
  }

  void emitCombine(Value value) {
    sym::Expr at = offset();
    Value old = update.load(frame.resultBuffer(0), elementType, at);
    BodyEmitter::Scope scope(combine);
    combine.setLanes(lanes, mask);
    combine.setArgument(0, old);
    combine.setArgument(1, value);
    update.store(frame.resultBuffer(0), elementType, at, combine.emitYield().front());
  }

  KernelFrame &frame;
  ScatterDims dims;
  BodyEmitter init, update, combine;
  Type elementType;
  SmallVector<sym::Expr> position; // of the batch and target dims
  sym::Expr firstColumn = 0, endColumn = 0;
  int64_t lanes = 1;
  Value mask;
};
} // namespace

bool codegen::haveOrderedPlaces(kernel::ScatterOp scatter) {
  ScatterDims dims(scatter, /*inPlace=*/true);
  ValueRange yielded = scatter.getUpdate().front().getTerminator()->getOperands();
  auto isShared = [&](Value value) {
    return llvm::none_of(llvm::seq<int64_t>(0, dims.targets),
                         [&](int64_t dim) { return dependsOnDim(value, dim); });
  };
  return !dims.placesAreRows && !sym::product(dims.placeExtents()).isConstant(1) &&
         llvm::all_of(yielded.drop_back(), isShared);
}

FailureOr<KernelPlan> codegen::planScatter(kernel::FuncOp func, const CPUInfo &target) {
  auto scatter = cast<kernel::ScatterOp>(func.getRoot());
  if (failed(verifyValueTypes(scatter)))
    return failure();
  ScatterDims dims(scatter, func.getUpdates().has_value());
  sym::Expr numRows = sym::product(dims.rowExtents());
  FailureOr<ScatterAttr> given = getGivenSchedule<ScatterAttr>(func);
  if (failed(given))
    return failure();
  if (ScatterAttr schedule = *given) {
    if (!dims.column && schedule.getLanes() != 1)
      return func.emitError() << schedule << " has lanes, but the scatter has no columns";
    RowTasks tasks{numRows, dims.numColumns(), schedule.getRows(), schedule.getColumns()};
    return KernelPlan{schedule, tasks.grid()};
  }
  int64_t lanes = 1;
  Type element = getStorageType(cast<RankedTensorType>(scatter.getType()).getElementType());
  if (dims.column && element.isIntOrFloat())
    lanes = target.vectorBytes / (element.getIntOrFloatBitWidth() / 8);
  double vectors = std::ceil(double(estimate(dims.numColumns())) / lanes);
  double written = double(estimate(sym::product(dims.placeExtents())));
  if (!func.getUpdates())
    written += double(estimate(sym::product(dims.targetExtents())));
  double rowCycles = written * vectors * double(target.stepCost);
  RowTasks tasks = RowTasks::make(numRows, dims.numColumns(), rowCycles, lanes, target);
  auto schedule = ScatterAttr::get(func.getContext(), tasks.rowBlock, tasks.columnBlock, lanes);
  return planRows(schedule, tasks, rowCycles);
}

LogicalResult codegen::emitScatter(KernelFrame &frame, kernel::ScatterOp scatter) {
  ScatterEmitter(frame, scatter).emit();
  return success();
}
