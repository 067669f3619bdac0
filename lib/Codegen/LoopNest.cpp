// Loops over the dims of a kernel, and what is known of their variables inside of them.
#include "kiln/Codegen/LoopNest.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

SmallVector<sym::Expr> DimGroup::delinearize(sym::Expr variable) const {
  SmallVector<sym::Expr> values = sym::delinearize(variable, extents);
  for (auto [value, extent] : llvm::zip(values, extents))
    if (extent.isConstant(1))
      value = 0;
  return values;
}

void DimGroup::bind(BodyEmitter &body, sym::Expr variable) const {
  for (auto [i, value] : llvm::enumerate(delinearize(variable)))
    body.setDim(first + i, value);
}

SmallVector<Access> codegen::collectAccesses(Region &region) {
  SmallVector<Access> accesses;
  region.walk([&](kernel::IndexedOpInterface op) {
    sym::MapAttr map = op.getMap();
    auto read = dyn_cast<kernel::ReadOp>(op.getOperation());
    if (read && read.getValues().empty()) {
      accesses.push_back(
          {op, true, sym::linearize(map.getResults(), sym::getShape(read.getTensor()))});
      return;
    }
    for (sym::Expr result : map.getResults())
      accesses.push_back({op, false, result});
  });
  return accesses;
}

static bool canMerge(sym::Expr outer, sym::Expr inner, sym::Expr innerExtent,
                     ArrayRef<Access> accesses) {
  return llvm::all_of(accesses, [&](const Access &access) {
    std::optional<sym::Linear> a = sym::splitLinear(access.expr, outer);
    std::optional<sym::Linear> b = sym::splitLinear(access.expr, inner);
    return a && b && !a->coefficient.hasDims() && !b->coefficient.hasDims() &&
           a->coefficient == b->coefficient * innerExtent;
  });
}

SmallVector<DimGroup> codegen::collapseDims(unsigned firstDim, ArrayRef<sym::Expr> extents,
                                            ArrayRef<Access> accesses) {
  SmallVector<DimGroup> groups;
  for (auto [i, extent] : llvm::enumerate(extents)) {
    unsigned dim = firstDim + i;
    if (!groups.empty()) {
      DimGroup &last = groups.back();
      bool trivial = extent.isConstant(1) || last.extent.isConstant(1);
      if (trivial || canMerge(last.lastDim(), sym::Expr::dim(dim), extent, accesses)) {
        ++last.count;
        last.extent = last.extent * extent;
        last.extents.push_back(extent);
        continue;
      }
    }
    groups.push_back({dim, 1, extent, {extent}});
  }
  return groups;
}

Walk codegen::classify(sym::Expr offset, sym::Expr dim) {
  if (!offset.dependsOn(dim))
    return Walk::Uniform;
  std::optional<sym::Linear> linear = sym::splitLinear(offset, dim);
  if (!linear)
    return Walk::Irregular;
  if (linear->coefficient.isConstant(1))
    return Walk::Consecutive;
  return linear->coefficient.hasDims() ? Walk::Irregular : Walk::Strided;
}

void codegen::emitVectorLoop(KernelFrame &frame, sym::Expr first, sym::Expr end, sym::Expr extent,
                             int64_t lanes, function_ref<void(sym::Expr, Value)> body) {
  sym::Expr whole = frame.assumptions.simplify(end.floorDiv(lanes) * lanes);
  frame.emitLoop(frame.emit(first), frame.emit(whole), lanes, {},
                 [&](Value iv, ValueRange) -> SmallVector<Value> {
                   sym::Expr multiple = frame.assumptions.simplify(extent.floorDiv(lanes) * lanes);
                   body(frame.addSteppedVariable(iv, lanes, multiple), Value());
                   return {};
                 });
  sym::Expr left = frame.assumptions.simplify(end - whole);
  if (frame.assumptions.isMultipleOf(extent, lanes) || left.isConstant(0))
    return;
  if (whole.isConstant())
    return body(whole, emitTailMask(frame, whole, end, lanes));
  OpBuilder &b = frame.builder;
  Value some = arith::CmpIOp::create(b, frame.loc, arith::CmpIPredicate::ne, frame.emit(left),
                                     frame.constant(0));
  auto branch = scf::IfOp::create(b, frame.loc, some, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  sym::Expr base = frame.addSteppedVariable(frame.emit(whole), lanes, extent);
  body(base, emitTailMask(frame, base, end, lanes));
}

int64_t codegen::chooseRowBlock(sym::Expr numRows, double rowCycles, const CPUInfo &target) {
  auto taskCycles = double(target.taskCycles);
  double rows = std::ceil(taskCycles / std::max(rowCycles, 1.0));
  // As many equal blocks as the work allows.
  if (std::optional<int64_t> count = numRows.constant()) {
    double blocks = std::max(1.0, std::floor(*count * rowCycles / taskCycles));
    rows = std::ceil(*count / blocks);
  }
  return std::max<int64_t>(1, rows);
}

RowTasks RowTasks::make(sym::Expr numRows, sym::Expr numColumns, double rowCycles, int64_t lanes,
                        const CPUInfo &target) {
  RowTasks tasks{numRows, numColumns};
  if (rowCycles > target.maxRowCycles() && !numColumns.isConstant(1)) {
    int64_t part =
        std::max<int64_t>(1, estimate(numColumns) * (double(target.taskCycles) / rowCycles));
    tasks.columnBlock = llvm::alignTo(part, lanes);
  } else {
    tasks.rowBlock = chooseRowBlock(numRows, rowCycles, target);
  }
  return tasks;
}

sym::Expr RowTasks::grid() const {
  sym::Expr rows = numRows.ceilDiv(rowBlock);
  return columnBlock ? rows * numColumns.ceilDiv(columnBlock) : rows;
}

void RowTasks::emit(KernelFrame &frame, int64_t lanes,
                    function_ref<void(sym::Expr, sym::Expr, sym::Expr)> body) const {
  auto named = [&](sym::Expr expr, sym::Expr extent, int64_t step) {
    if (expr.isConstant() || expr.kind() == sym::Kind::Dim)
      return expr;
    return frame.addSteppedVariable(frame.emit(expr), step, extent);
  };
  sym::Expr task = frame.addVariable(frame.task, grid());
  if (columnBlock) {
    sym::Expr blocks = numColumns.ceilDiv(columnBlock);
    sym::Expr row = frame.assumptions.simplify(task.floorDiv(blocks));
    sym::Expr first = frame.assumptions.simplify(columnBlock * (task - row * blocks));
    first = named(first, numColumns, lanes);
    return body(named(row, numRows, 1), first, sym::Expr::min(first + columnBlock, numColumns));
  }
  sym::Expr first = frame.assumptions.simplify(rowBlock * task);
  if (rowBlock == 1)
    return body(named(first, numRows, 1), 0, numColumns);
  sym::Expr end = frame.assumptions.simplify(sym::Expr::min(first + rowBlock, numRows));
  frame.emitLoop(frame.emit(first), frame.emit(end), 1, {},
                 [&](Value iv, ValueRange) -> SmallVector<Value> {
                   body(frame.addVariable(iv, numRows), 0, numColumns);
                   return {};
                 });
}

int64_t codegen::estimate(sym::Expr size) {
  constexpr int64_t guess = 64;
  return size.evaluate([](sym::Expr) { return guess; }).value_or(guess * guess);
}
