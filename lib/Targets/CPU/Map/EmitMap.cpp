// Writes the function of a kernel.map.
#include "CPU/Contract/ContractStaging.h"
#include "CPU/Map/MapPlan.h"
#include "CPU/Streams.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

class MapEmitter {
public:
  MapEmitter(KernelFrame &frame, kernel::MapOp map, MapPlan mapPlan)
      : frame(frame), map(map), body(frame, map.getBody()), domain(map.getExtents()),
        position(domain.size()), plan(std::move(mapPlan)) {}

  void emit() {
    for (const PlannedReduction &reduction : plan.reductions)
      body.setReductionShape(reduction.op, reduction.shape);
    for (const KeptElements &elements : plan.kept)
      body.keepElements(elements.reduce, elements.result, keptRow(elements));
    // Known from the start, whatever loop they are part of.
    for (auto [i, extent] : llvm::enumerate(domain))
      if (extent.isConstant(1))
        body.setDim(i, 0);
    body.emitAvailable();
    sym::Expr task = frame.addVariable(frame.task, plan.grid());
    sym::Expr columnBlocks = plan.numColumnBlocks();
    sym::Expr rowTask = frame.assumptions.simplify(task.floorDiv(columnBlocks));
    if (plan.columnBlock) {
      sym::Expr first = plan.columnBlock * (task - rowTask * columnBlocks);
      firstColumn = named(frame.assumptions.simplify(first), plan.columns->extent, plan.lanes);
      endColumn = sym::Expr::min(firstColumn + plan.columnBlock, plan.columns->extent);
    } else if (plan.columns) {
      endColumn = plan.columns->extent;
    }

    if (plan.window) {
      sym::Expr high = frame.assumptions.simplify(plan.window->high);
      if (!high.isConstant())
        high = frame.addVariable(frame.emit(high), sym::Range{plan.window->low, {}});
      plan.window->high = high;
    }

    sym::Expr numRows = plan.numRows();
    sym::Expr firstRow = frame.assumptions.simplify(plan.rowBlock * rowTask);
    if (plan.rowBlock == 1)
      return emitRow(named(firstRow, numRows));
    sym::Expr endRow =
        frame.assumptions.simplify(sym::Expr::min(firstRow + plan.rowBlock, numRows));
    frame.emitLoop(frame.emit(firstRow), frame.emit(endRow), 1, {},
                   [&](Value iv, ValueRange) -> SmallVector<Value> {
                     emitRow(frame.addVariable(iv, numRows));
                     return {};
                   });
  }

private:
  /// Code for `expr` as a loop variable of its own, unless it is as simple as one.
  sym::Expr named(sym::Expr expr, sym::Expr extent, int64_t step = 1) {
    if (expr.isConstant() || expr.kind() == sym::Kind::Dim)
      return expr;
    return frame.addSteppedVariable(frame.emit(expr), step, extent);
  }

  void bind(const DimGroup &group, sym::Expr variable) {
    for (auto [i, value] : llvm::enumerate(group.delinearize(variable)))
      position[group.first + i] = value;
    group.bind(body, variable);
  }

  void emitRow(sym::Expr row) {
    BodyEmitter::Scope scope(body);
    SmallVector<sym::Expr> extents;
    for (const DimGroup &group : plan.rows)
      extents.push_back(group.extent);
    for (auto [group, value] : llvm::zip(plan.rows, sym::delinearize(row, extents)))
      bind(group, named(frame.assumptions.simplify(value), group.extent));
    emitInner(plan.inner);
  }

  void emitInner(ArrayRef<DimGroup> loops) {
    body.emitAvailable();
    if (loops.empty())
      return emitColumns();
    if (loops.size() == 1 && plan.window)
      return emitWindow(loops.front());
    frame.emitLoop(frame.constant(0), frame.emit(loops.front().extent), 1, {},
                   [&](Value iv, ValueRange) -> SmallVector<Value> {
                     BodyEmitter::Scope scope(body);
                     bind(loops.front(), frame.addVariable(iv, loops.front().extent));
                     emitInner(loops.drop_front());
                     return {};
                   });
  }

  /// Steps of `loop` inside the edges several at a time, without masks; then the others.
  void emitWindow(const DimGroup &loop) {
    OpBuilder &b = frame.builder;
    Location loc = frame.loc;
    const WindowPlan &window = *plan.window;
    Value inside;
    for (const WindowPlan::Test &test : window.tests) {
      // The dims of a test are those bound by now.
      sym::Expr first = frame.assumptions.simplify(test.first.substituteDims(position));
      sym::Expr last = frame.assumptions.simplify(test.last.substituteDims(position));
      Value low = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, frame.emit(first),
                                        frame.constant(0));
      Value high = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, frame.emit(last),
                                         frame.emit(test.bound));
      Value both = arith::AndIOp::create(b, loc, low, high);
      inside = inside ? arith::AndIOp::create(b, loc, inside, both).getResult() : both;
    }

    auto emitSteps = [&](sym::Expr step) {
      steps.clear();
      for (int64_t i = 0; i < window.steps; ++i)
        steps.push_back(step + i);
      stepLoop = &loop;
      emitColumns();
      stepLoop = nullptr;
    };
    auto emitInside = [&] {
      for (auto [op, result] : window.insides)
        body.setCertain(op, result);
      frame.emitLoop(frame.constant(window.low), frame.emit(window.high), window.steps, {},
                     [&](Value iv, ValueRange) -> SmallVector<Value> {
                       // All of the steps are in the loop.
                       BodyEmitter::Scope scope(body);
                       emitSteps(frame.addVariable(iv, window.high - window.steps + 1));
                       return {};
                     });
      body.clearCertain();
    };
    Value outside = frame.emit(window.low + loop.extent - window.high);
    if (inside) {
      auto branch = scf::IfOp::create(b, loc, inside, /*withElseRegion=*/false);
      {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(branch.thenBlock());
        emitInside();
      }
      outside = arith::SelectOp::create(b, loc, inside, outside, frame.emit(loop.extent));
    } else {
      emitInside();
    }
    frame.emitLoop(
        frame.constant(0), outside, 1, {}, [&](Value iv, ValueRange) -> SmallVector<Value> {
          BodyEmitter::Scope scope(body);
          // Past the steps done above.
          Value skip = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, iv,
                                             frame.constant(window.low));
          if (inside)
            skip = arith::AndIOp::create(b, loc, skip, inside);
          Value next = arith::AddIOp::create(b, loc, iv, frame.emit(window.high - window.low));
          Value step = arith::SelectOp::create(b, loc, skip, next, iv);
          bind(loop, frame.addVariable(step, loop.extent));
          body.emitAvailable();
          emitColumns();
          return {};
        });
  }

  void emitColumns() {
    if (!plan.columns) {
      body.setLanes(1);
      return storeElements(body.emitYield());
    }
    auto emitLoop = [&](function_ref<void(sym::Expr, Value)> inside) {
      emitVectorLoop(frame, firstColumn, endColumn, plan.columns->extent, plan.lanes, inside);
    };
    if (!plan.streamed.empty())
      return emitStreams(emitLoop);
    if (!plan.turned)
      return emitLoop([&](sym::Expr base, Value mask) { emitVector(base, mask); });
    // The columns inside: a task's part of them stays in cache, and whole lines of the result are
    // written one after the other.
    sym::Expr extent = plan.turned->extent;
    emitVectors(frame, extent, extent, plan.lanes, [&](sym::Expr first, Value outside) {
      emitLoop([&](sym::Expr base, Value mask) { emitSquare(first, outside, base, mask); });
    });
  }

  /// The task's columns several times: for a few steps of each reduction, and for the elements.
  void emitStreams(function_ref<void(function_ref<void(sym::Expr, Value)>)> emitColumnLoop) {
    for (auto [i, reduction] : llvm::enumerate(plan.streamed)) {
      ArrayRef<StreamedReduction> done = ArrayRef(plan.streamed).take_front(i);
      emitColumnLoop([&](sym::Expr base, Value mask) {
        BodyEmitter::Scope scope(body);
        sym::Expr column = bindColumns(base, mask, done);
        SmallVector<Value> initial;
        for (Value init : reduction.op.getInit())
          initial.push_back(body.emitValue(init));
        storeAccumulators(reduction, column, initial);
      });
      sym::Expr steps = reduction.op.getExtents().getSizes().front();
      sym::Expr whole = frame.assumptions.simplify(steps.floorDiv(streamedRows) * streamedRows);
      auto emitSteps = [&](sym::Expr begin, sym::Expr end, int64_t count) {
        frame.emitLoop(frame.simplifyAndEmit(begin), frame.simplifyAndEmit(end), count, {},
                       [&](Value iv, ValueRange) -> SmallVector<Value> {
                         sym::Expr first = count == 1 ? frame.addVariable(iv, steps)
                                                      : frame.addSteppedVariable(iv, count, whole);
                         emitColumnLoop([&](sym::Expr base, Value mask) {
                           addSteps(reduction, done, first, count, base, mask);
                         });
                         return {};
                       });
      };
      emitSteps(0, whole, streamedRows);
      if (steps != whole)
        emitSteps(whole, steps, 1);
    }
    emitColumnLoop([&](sym::Expr base, Value mask) {
      BodyEmitter::Scope scope(body);
      bindColumns(base, mask, plan.streamed);
      storeElements(body.emitYield());
    });
  }

  void addSteps(StreamedReduction reduction, ArrayRef<StreamedReduction> done, sym::Expr first,
                int64_t count, sym::Expr base, Value mask) {
    BodyEmitter::Scope scope(body);
    sym::Expr column = bindColumns(base, mask, done);
    reduction.op.getBody().walk([&](Operation *op) {
      for (Value operand : op->getOperands())
        if (operand.getParentRegion() == &map.getBody())
          body.emitValue(operand);
    });
    SmallVector<Value> accumulators;
    for (auto [i, type] : llvm::enumerate(reduction.op.getResultTypes()))
      accumulators.push_back(body.load(scratchAt(reduction.offsets[i]), type, column));
    for (int64_t i = 0; i < count; ++i) {
      BodyEmitter::Scope scope(body);
      body.setDim(domain.size(), first + i);
      accumulators = body.addStep(reduction.op, accumulators);
    }
    storeAccumulators(reduction, column, accumulators);
  }

  /// Binds the columns, with what reductions have made of them; returns their place in the task's scratch memory.
  sym::Expr bindColumns(sym::Expr base, Value mask, ArrayRef<StreamedReduction> done) {
    sym::Expr column = base + body.setLanes(plan.lanes, mask);
    bind(*plan.columns, column);
    column = frame.assumptions.simplify(column - firstColumn);
    for (StreamedReduction reduction : done)
      for (auto [result, offset] : llvm::zip(reduction.op.getResults(), reduction.offsets))
        body.setValue(result, body.load(scratchAt(offset), result.getType(), column));
    return column;
  }

  void storeAccumulators(StreamedReduction reduction, sym::Expr column, ValueRange accumulators) {
    for (auto [value, type, offset] :
         llvm::zip(accumulators, reduction.op.getResultTypes(), reduction.offsets))
      body.store(scratchAt(offset), type, column, value);
  }

  /// Values in vectors along the turned loop from `first` on, stored along the columns from `base`
  /// on; the masks are null where all steps are inside.
  void emitSquare(sym::Expr first, Value firstMask, sym::Expr base, Value baseMask) {
    SmallVector<SmallVector<Value>> squares(map.getNumResults());
    for (int64_t i = 0; i < plan.lanes; ++i) {
      BodyEmitter::Scope scope(body);
      sym::Expr column = frame.assumptions.simplify(base + i), extent = plan.columns->extent;
      // Past the last column: any value will do, but of a column that there is.
      if (baseMask && !frame.assumptions.isLess(column, extent))
        column = frame.addVariable(frame.emit(sym::Expr::min(column, extent - 1)), extent);
      bind(*plan.columns, column);
      bind(*plan.turned, first + body.setLanes(plan.lanes, firstMask));
      for (auto [square, value] : llvm::zip(squares, body.emitYield()))
        square.push_back(body.splat(value));
    }
    for (SmallVector<Value> &square : squares)
      square = emitTranspose(frame, square);
    for (int64_t i = 0; i < plan.lanes; ++i) {
      sym::Expr step = frame.assumptions.simplify(first + i), extent = plan.turned->extent;
      if (frame.assumptions.isLessOrEqual(extent, step))
        break;
      BodyEmitter::Scope scope(body);
      Value mask = baseMask;
      if (firstMask && !frame.assumptions.isLess(step, extent))
        mask = maskInside(step, extent, mask);
      bind(*plan.turned, step);
      bind(*plan.columns, base + body.setLanes(plan.lanes, mask));
      storeElements(llvm::map_to_vector(squares, [&](auto &square) { return square[i]; }));
    }
  }

  /// `mask`, or all lanes if it is null, where `step` is below `extent`; else none.
  Value maskInside(sym::Expr step, sym::Expr extent, Value mask) {
    OpBuilder &b = frame.builder;
    Value isInside = arith::CmpIOp::create(b, frame.loc, arith::CmpIPredicate::slt,
                                           frame.emit(step), frame.emit(extent));
    auto type = VectorType::get(plan.lanes, b.getI1Type());
    Value all = vector::BroadcastOp::create(b, frame.loc, type, isInside);
    return mask ? arith::AndIOp::create(b, frame.loc, all, mask).getResult() : all;
  }

  void emitVector(sym::Expr base, Value mask) {
    if (!stepLoop) {
      BodyEmitter::Scope scope(body);
      sym::Expr column = base + body.setLanes(plan.lanes, mask);
      bind(*plan.columns, column);
      for (const KeptElements &elements : plan.kept)
        body.setValue(elements.value,
                      body.load(keptRow(elements), elements.value.getType(), column));
      return storeElements(body.emitYield());
    }
    // No store between the steps' reads: equal ones become one.
    SmallVector<SmallVector<Value>> values;
    for (sym::Expr step : steps) {
      BodyEmitter::Scope scope(body);
      bind(*stepLoop, step);
      bind(*plan.columns, base + body.setLanes(plan.lanes, mask));
      values.push_back(body.emitYield());
    }
    for (auto [step, elements] : llvm::zip(steps, values)) {
      BodyEmitter::Scope scope(body);
      bind(*stepLoop, step);
      bind(*plan.columns, base + body.setLanes(plan.lanes, mask));
      storeElements(elements);
    }
  }

  Value scratchAt(int64_t bytes) {
    return frame.gep(frame.scratch, frame.builder.getI8Type(), frame.constant(bytes));
  }
  Value keptRow(const KeptElements &elements) { return scratchAt(elements.offset); }

  void storeElements(ArrayRef<Value> values) {
    sym::Expr offset = sym::linearize(position, domain);
    for (auto [i, value] : llvm::enumerate(values)) {
      auto type = cast<RankedTensorType>(map.getResult(i).getType());
      body.store(frame.resultBuffer(i), type.getElementType(), offset, value);
    }
  }

  KernelFrame &frame;
  kernel::MapOp map;
  BodyEmitter body;
  SmallVector<sym::Expr> domain, position;
  MapPlan plan;
  sym::Expr firstColumn = 0, endColumn = 0;
  /// Steps of this loop that are written out together.
  const DimGroup *stepLoop = nullptr;
  SmallVector<sym::Expr> steps;
};

} // namespace

LogicalResult cpu::emitMap(KernelFrame &frame, kernel::MapOp map) {
  FailureOr<MapPlan> plan = makeMapPlan(frame.func, getSchedule<MapAttr>(frame.func), frame.target);
  if (failed(plan))
    return failure();
  MapEmitter(frame, map, std::move(*plan)).emit();
  return success();
}
