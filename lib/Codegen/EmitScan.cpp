// Plans and writes the function of a kernel.scan: along `dim` one element after the other, in
// vectors of the last dim where that is another.
#include "kiln/Codegen/KernelEmitters.h"
#include "kiln/Codegen/LoopNest.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

namespace {
/// The dims of a scan by the part they play.
struct ScanDims {
  explicit ScanDims(kernel::ScanOp scan) : domain(scan.getExtents()), along(scan.getDim()) {
    unsigned last = domain.size() - 1;
    if (last != along && !domain[last].isConstant(1))
      column = last;
    for (unsigned i = 0; i < domain.size(); ++i)
      if (i != along && i != column)
        rows.push_back(i);
  }

  SmallVector<sym::Expr> rowExtents() const {
    return llvm::map_to_vector(rows, [&](unsigned i) { return domain[i]; });
  }
  sym::Expr numColumns() const { return column ? domain[*column] : sym::Expr(1); }

  SmallVector<sym::Expr> domain;
  unsigned along;
  std::optional<unsigned> column;
  SmallVector<unsigned> rows;
};

class ScanEmitter {
public:
  ScanEmitter(KernelFrame &frame, kernel::ScanOp scan)
      : frame(frame), scan(scan), dims(scan), init(frame, scan.getInit()),
        body(frame, scan.getBody()), combine(frame, scan.getCombine()),
        finish(frame, scan.getFinish()), position(dims.domain.size()) {}

  void emit() {
    auto schedule = getSchedule<ScanAttr>(frame.func);
    lanes = schedule.getLanes();
    RowTasks tasks{sym::product(dims.rowExtents()), dims.numColumns(), schedule.getRows(),
                   schedule.getColumns()};
    tasks.emit(frame, lanes, [&](sym::Expr row, sym::Expr first, sym::Expr end) {
      BodyEmitter::Scope initScope(init), bodyScope(body);
      for (auto [dim, value] : llvm::zip(dims.rows, sym::delinearize(row, dims.rowExtents())))
        setDim(dim, frame.assumptions.simplify(value));
      if (!dims.column)
        return emitLine(std::nullopt, Value());
      emitVectorLoop(frame, first, end, dims.numColumns(), lanes,
                     [&](sym::Expr base, Value mask) { emitLine(base, mask); });
    });
  }

private:
  /// `value` may hold a lane of one emitter; the others get theirs from the caller.
  void setDim(unsigned dim, sym::Expr value) {
    init.setDim(dim, value);
    body.setDim(dim, value);
    position[dim] = value;
  }

  void emitLine(std::optional<sym::Expr> base, Value mask) {
    BodyEmitter::Scope initScope(init), bodyScope(body);
    sym::Expr initLane = init.setLanes(lanes, mask), bodyLane = body.setLanes(lanes, mask);
    if (base) {
      init.setDim(*dims.column, *base + initLane);
      body.setDim(*dims.column, *base + bodyLane);
    }
    SmallVector<Value> state = init.emitYield();
    body.emitAvailable();
    frame.emitLoop(frame.constant(0), frame.emit(dims.domain[dims.along]), 1, state,
                   [&](Value iv, ValueRange carried) {
                     sym::Expr at = frame.addVariable(iv, dims.domain[dims.along]);
                     return emitStep(at, base, carried, mask);
                   });
  }

  SmallVector<Value> emitStep(sym::Expr at, std::optional<sym::Expr> base, ValueRange state,
                              Value mask) {
    BodyEmitter::Scope bodyScope(body), combineScope(combine), finishScope(finish);
    body.setDim(dims.along, at);
    SmallVector<Value> arguments(state);
    llvm::append_range(arguments, body.emitYield());
    combine.setLanes(lanes, mask);
    for (auto [i, value] : llvm::enumerate(arguments))
      combine.setArgument(i, value);
    SmallVector<Value> next = combine.emitYield();

    sym::Expr lane = finish.setLanes(lanes, mask);
    for (auto [i, value] : llvm::enumerate(next))
      finish.setArgument(i, value);
    SmallVector<sym::Expr> element(position);
    element[dims.along] = at;
    if (base)
      element[*dims.column] = *base + lane;
    sym::Expr offset = sym::linearize(element, dims.domain);
    for (auto [i, value] : llvm::enumerate(finish.emitYield())) {
      auto type = cast<RankedTensorType>(scan.getResult(i).getType());
      finish.store(frame.resultBuffer(i), type.getElementType(), offset, value);
    }
    return next;
  }

  KernelFrame &frame;
  kernel::ScanOp scan;
  ScanDims dims;
  BodyEmitter init, body, combine, finish;
  SmallVector<sym::Expr> position;
  int64_t lanes = 1;
};
} // namespace

FailureOr<KernelPlan> codegen::planScan(kernel::FuncOp func, const CPUInfo &target) {
  auto scan = cast<kernel::ScanOp>(func.getRoot());
  if (failed(verifyValueTypes(scan)))
    return failure();
  ScanDims dims(scan);
  sym::Expr numRows = sym::product(dims.rowExtents());
  FailureOr<ScanAttr> given = getGivenSchedule<ScanAttr>(func);
  if (failed(given))
    return failure();
  if (ScanAttr schedule = *given) {
    if (!dims.column && schedule.getLanes() != 1)
      return func.emitError() << schedule << " has lanes, but the scan has no columns";
    RowTasks tasks{numRows, dims.numColumns(), schedule.getRows(), schedule.getColumns()};
    return KernelPlan{schedule, tasks.grid()};
  }
  int64_t lanes = 1;
  if (dims.column) {
    lanes = target.vectorBytes;
    for (Region &region : scan->getRegions())
      lanes = std::min(lanes, preferredLanes(region, target));
  }
  double vectors = std::ceil(double(estimate(dims.numColumns())) / lanes);
  double rowCycles = estimate(dims.domain[dims.along]) * vectors * double(target.stepCost);
  RowTasks tasks = RowTasks::make(numRows, dims.numColumns(), rowCycles, lanes, target);
  auto schedule = ScanAttr::get(func.getContext(), tasks.rowBlock, tasks.columnBlock, lanes);
  return planRows(schedule, tasks, rowCycles);
}

LogicalResult codegen::emitScan(KernelFrame &frame, kernel::ScanOp scan) {
  ScanEmitter(frame, scan).emit();
  return success();
}
