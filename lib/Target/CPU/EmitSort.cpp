// Plans and writes the function of a kernel.sort: rows in parallel, each by a bottom-up merge of
// positions between two buffers, which compares keys that were computed before.
#include "kiln/Target/CPU/KernelEmitters.h"
#include "kiln/Target/CPU/LoopNest.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

/// Cycles of one element in one pass.
static constexpr double mergeCycles = 8;

namespace {
class SortEmitter {
public:
  SortEmitter(KernelFrame &frame, kernel::SortOp sort)
      : frame(frame), b(frame.builder), loc(frame.loc), body(frame, sort.getBody()),
        domain(sort.getDomain()) {}

  void emit() {
    kernel::ScheduleAttr schedule = frame.func.getScheduleAttr();
    lanes = schedule.getLanes();
    SmallVector<sym::Expr> rows(ArrayRef(domain).drop_back());
    RowTasks tasks{sym::product(rows), 1, schedule.getBlock()[0], 0};
    tasks.emit(frame, 1, [&](sym::Expr row, sym::Expr, sym::Expr) {
      BodyEmitter::Scope scope(body);
      SmallVector<sym::Expr> position = sym::delinearize(row, rows);
      for (auto [i, value] : llvm::enumerate(position))
        body.setDim(i, frame.assumptions.simplify(value));
      emitRow(frame.simplifyAndEmit(row * domain.back()), position);
    });
  }

private:
  Type i64() { return b.getI64Type(); }
  Value gep(Value base, Value index) { return frame.gep(base, i64(), index); }
  Value load(Value base, Value index) {
    return LLVM::LoadOp::create(b, loc, i64(), gep(base, index));
  }
  void store(Value base, Value index, Value value) {
    LLVM::StoreOp::create(b, loc, value, gep(base, index));
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value min(Value x, Value y) { return arith::MinSIOp::create(b, loc, x, y); }
  Value less(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
  }
  Value asInteger(Value flag) { return arith::ExtUIOp::create(b, loc, i64(), flag); }

  void emitRow(Value start, SmallVector<sym::Expr> position) {
    sym::Expr size = domain.back();
    position.push_back(0);
    body.emitAvailable();
    emitVectorLoop(frame, 0, size, size, lanes, [&](sym::Expr base, Value mask) {
      BodyEmitter::Scope scope(body);
      position.back() = base + body.setLanes(lanes, mask);
      body.setDim(position.size() - 1, position.back());
      body.store(frame.resultBuffer(1), i64(), sym::linearize(position, domain),
                 body.emitYield().front());
    });
    Value from = gep(frame.resultBuffer(0), start), keys = gep(frame.resultBuffer(1), start);
    Value to = gep(frame.resultBuffer(2), start);
    Value length = frame.emit(size), zero = frame.constant(0);
    frame.emitLoop(zero, length, 1, {}, [&](Value i, ValueRange) -> SmallVector<Value> {
      store(from, i, i);
      return {};
    });

    // While runs of `width` are not everything, pairs of them are merged into the other buffer.
    auto passes = scf::WhileOp::create(
        b, loc, TypeRange{i64(), frame.ptrType(), frame.ptrType()},
        ValueRange{frame.constant(1), from, to},
        [&](OpBuilder &, Location, ValueRange state) {
          scf::ConditionOp::create(b, loc, less(state[0], length), state);
        },
        [&](OpBuilder &, Location, ValueRange state) {
          Value twice = add(state[0], state[0]);
          auto pairs = scf::ForOp::create(b, loc, zero, length, twice);
          OpBuilder::InsertionGuard guard(b);
          b.setInsertionPointToStart(pairs.getBody());
          emitMerge(pairs.getInductionVar(), state[0], length, keys, state[1], state[2]);
          b.setInsertionPointAfter(pairs);
          scf::YieldOp::create(b, loc, ValueRange{twice, state[2], state[1]});
        });
    // After an odd number of passes the order is in the spare buffer.
    Value elsewhere =
        LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, passes.getResult(1), from);
    auto copy = scf::IfOp::create(b, loc, elsewhere, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(copy.thenBlock());
    frame.emitLoop(zero, length, 1, {}, [&](Value i, ValueRange) -> SmallVector<Value> {
      store(from, i, load(passes.getResult(1), i));
      return {};
    });
  }

  /// [first, first + width) and what follows it, each sorted. Both candidates are loaded whether
  /// they exist or not (from places that do), so that there is nothing to branch on.
  void emitMerge(Value first, Value width, Value length, Value keys, Value from, Value to) {
    Value one = frame.constant(1);
    Value middle = min(add(first, width), length), end = min(add(middle, width), length);
    Value lastLeft = arith::SubIOp::create(b, loc, middle, one);
    Value lastRight = arith::SubIOp::create(b, loc, end, one);
    frame.emitLoop(first, end, 1, ValueRange{first, middle}, [&](Value at, ValueRange state) {
      Value left = load(from, min(state[0], lastLeft));
      Value right = load(from, min(state[1], lastRight));
      Value before = less(load(keys, right), load(keys, left));
      Value rightDone = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, state[1], end);
      Value yes = arith::ConstantIntOp::create(b, loc, 1, 1);
      Value notBefore = arith::XOrIOp::create(b, loc, before, yes);
      Value takeLeft = arith::AndIOp::create(b, loc, less(state[0], middle),
                                             arith::OrIOp::create(b, loc, rightDone, notBefore));
      store(to, at, arith::SelectOp::create(b, loc, takeLeft, left, right));
      Value takeRight = arith::XOrIOp::create(b, loc, takeLeft, yes);
      return SmallVector<Value>{add(state[0], asInteger(takeLeft)),
                                add(state[1], asInteger(takeRight))};
    });
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  BodyEmitter body;
  SmallVector<sym::Expr> domain;
  int64_t lanes = 1;
};
} // namespace

FailureOr<KernelPlan> cpu::planSort(kernel::FuncOp func, const TargetInfo &target) {
  auto sort = cast<kernel::SortOp>(func.getRoot());
  if (failed(verifyValueTypes(sort)))
    return failure();
  SmallVector<sym::Expr> domain = sort.getDomain();
  sym::Expr numRows = sym::product(ArrayRef(domain).drop_back());
  if (kernel::ScheduleAttr schedule = func.getScheduleAttr()) {
    if (schedule.getBlock().size() != 1 || schedule.getBlock()[0] < 1 || schedule.getLanes() < 1)
      return func.emitError("a sort's schedule needs block = [rows]");
    return KernelPlan{schedule, numRows.ceilDiv(schedule.getBlock()[0]), 0};
  }
  double length = std::max<int64_t>(2, estimate(domain.back()));
  RowTasks tasks = RowTasks::make(numRows, 1, length * std::log2(length) * mergeCycles, 1);
  int64_t lanes = std::min<int64_t>(preferredLanes(sort.getBody(), target), target.vectorBytes / 8);
  auto schedule = kernel::ScheduleAttr::get(func.getContext(), {lanes}, {tasks.rowBlock}, lanes,
                                            /*stage=*/false);
  return KernelPlan{schedule, tasks.grid(), 0};
}

LogicalResult cpu::emitSort(KernelFrame &frame, kernel::SortOp sort) {
  SortEmitter(frame, sort).emit();
  return success();
}
