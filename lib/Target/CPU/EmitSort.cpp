// Plans and writes the function of a kernel.sort: rows in parallel, by keys that were computed
// before. Short rows are sorted by a bottom-up merge of positions between two buffers. Long ones go
// digit by digit, the last one first: a row is moved, in order, once for each 8 bits of the longest
// key. What is moved are words of key and position, if both fit into 64 bits, else positions alone.
#include "kiln/Target/CPU/KernelEmitters.h"
#include "kiln/Target/CPU/LoopNest.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

/// Cycles of one element in one pass.
static constexpr double mergeCycles = 8;
/// Rows of as many elements are sorted by digits; those with keys that take twice as many passes,
/// all over memory, from the second length on.
static constexpr int64_t longRow = 64, longRowOfWideKeys = 256;
static constexpr int64_t digitBits = 8, numDigits = int64_t(1) << digitBits;

namespace {
/// Code that leaves the order of `length` keys in `positions`.
class RowOrder {
public:
  RowOrder(KernelFrame &frame, Value positions, Value keys, Value spare, Value length)
      : frame(frame), b(frame.builder), loc(frame.loc), positions(positions), keys(keys),
        spare(spare), length(length), zero(frame.constant(0)), one(frame.constant(1)) {}

  void emitByMerging() {
    forEachPlace(length, [&](Value i) { store(positions, i, i); });
    // While runs of `width` are not everything, pairs of them are merged into the other buffer.
    auto passes = scf::WhileOp::create(
        b, loc, TypeRange{i64(), frame.ptrType(), frame.ptrType()},
        ValueRange{one, positions, spare},
        [&](OpBuilder &, Location, ValueRange state) {
          scf::ConditionOp::create(b, loc, less(state[0], length), state);
        },
        [&](OpBuilder &, Location, ValueRange state) {
          Value twice = add(state[0], state[0]);
          auto pairs = scf::ForOp::create(b, loc, zero, length, twice);
          OpBuilder::InsertionGuard guard(b);
          b.setInsertionPointToStart(pairs.getBody());
          emitMerge(pairs.getInductionVar(), state[0], state[1], state[2]);
          b.setInsertionPointAfter(pairs);
          scf::YieldOp::create(b, loc, ValueRange{twice, state[2], state[1]});
        });
    // After an odd number of passes the order is in the spare buffer.
    Value elsewhere =
        LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, passes.getResult(1), positions);
    auto copy = scf::IfOp::create(b, loc, elsewhere, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(copy.thenBlock());
    forEachPlace(length, [&](Value i) { store(positions, i, load(passes.getResult(1), i)); });
  }

  void emitByDigits() {
    Value bits = frame.emitLoop(zero, length, 1, zero, [&](Value i, ValueRange state) {
      Value key = load(keys, i), sign = arith::ShRSIOp::create(b, loc, key, frame.constant(63));
      Value magnitude = arith::XOrIOp::create(b, loc, key, sign);
      return SmallVector<Value>{arith::OrIOp::create(b, loc, state[0], magnitude)};
    })[0];
    // With their sign, in whole digits.
    Value keyBits = sub(frame.constant(65 + digitBits - 1), leadingZeros(bits));
    keyBits = arith::AndIOp::create(b, loc, keyBits, frame.constant(-digitBits));
    Value placeBits = sub(frame.constant(64), leadingZeros(length));
    Value allBits = add(keyBits, placeBits), bias = shiftLeft(one, sub(keyBits, one));
    auto fits = scf::IfOp::create(b, loc, less(allBits, frame.constant(65)),
                                  /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(fits.thenBlock());
    Value mask = sub(shiftLeft(one, placeBits), one);
    emitPasses(
        placeBits, allBits,
        [&](Value i) -> Value {
          Value word = shiftLeft(add(load(keys, i), bias), placeBits);
          return arith::OrIOp::create(b, loc, word, i);
        },
        [](Value word) { return word; },
        [&](Value word) -> Value { return arith::AndIOp::create(b, loc, word, mask); });
    b.setInsertionPointToStart(fits.elseBlock());
    auto isShort = scf::IfOp::create(b, loc, less(length, frame.constant(longRowOfWideKeys)),
                                     /*withElseRegion=*/true);
    b.setInsertionPointToStart(isShort.thenBlock());
    emitByMerging();
    b.setInsertionPointToStart(isShort.elseBlock());
    emitPasses(
        zero, keyBits, [](Value i) { return i; },
        [&](Value position) { return add(load(keys, position), bias); },
        [](Value position) { return position; });
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
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value min(Value x, Value y) { return arith::MinSIOp::create(b, loc, x, y); }
  Value shiftLeft(Value x, Value y) { return arith::ShLIOp::create(b, loc, x, y); }
  Value leadingZeros(Value x) { return math::CountLeadingZerosOp::create(b, loc, x); }
  Value less(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
  }
  Value asInteger(Value flag) { return arith::ExtUIOp::create(b, loc, i64(), flag); }

  /// [first, first + width) and what follows it, each sorted. Both candidates are loaded whether
  /// they exist or not (from places that do), so that there is nothing to branch on.
  void emitMerge(Value first, Value width, Value from, Value to) {
    Value middle = min(add(first, width), length), end = min(add(middle, width), length);
    Value lastLeft = sub(middle, one), lastRight = sub(end, one);
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

  using Function = function_ref<Value(Value)>;

  /// Words begin as `start` of their place; they are sorted by bits [begin, end) of their `key`,
  /// and `finish` of them is left in `positions`.
  void emitPasses(Value begin, Value end, Function start, Function key, Function finish) {
    forEachPlace(length, [&](Value i) { store(positions, i, start(i)); });
    auto passes = scf::WhileOp::create(
        b, loc, TypeRange{i64(), frame.ptrType(), frame.ptrType()},
        ValueRange{begin, positions, spare},
        [&](OpBuilder &, Location, ValueRange state) {
          scf::ConditionOp::create(b, loc, less(state[0], end), state);
        },
        [&](OpBuilder &, Location, ValueRange state) {
          emitPass(state[0], key, state[1], state[2]);
          Value next = add(state[0], frame.constant(digitBits));
          scf::YieldOp::create(b, loc, ValueRange{next, state[2], state[1]});
        });
    forEachPlace(length,
                 [&](Value i) { store(positions, i, finish(load(passes.getResult(1), i))); });
  }

  /// Moves all words to where the digit at bit `shift` puts them: behind those with lesser digits.
  void emitPass(Value shift, Function key, Value from, Value to) {
    Value counts = countersOnStack(), end = frame.constant(numDigits);
    auto digit = [&](Value word) -> Value {
      Value shifted = arith::ShRUIOp::create(b, loc, key(word), shift);
      return arith::AndIOp::create(b, loc, shifted, frame.constant(numDigits - 1));
    };
    forEachPlace(end, [&](Value i) { store(counts, i, zero); });
    forEachPlace(length, [&](Value i) {
      Value which = digit(load(from, i));
      store(counts, which, add(load(counts, which), one));
    });
    frame.emitLoop(zero, end, 1, zero, [&](Value i, ValueRange state) {
      Value count = load(counts, i);
      store(counts, i, state[0]);
      return SmallVector<Value>{add(state[0], count)};
    });
    forEachPlace(length, [&](Value i) {
      Value word = load(from, i), which = digit(word), at = load(counts, which);
      store(to, at, word);
      store(counts, which, add(at, one));
    });
  }

  void forEachPlace(Value end, function_ref<void(Value)> body) {
    frame.emitLoop(zero, end, 1, {}, [&](Value i, ValueRange) -> SmallVector<Value> {
      body(i);
      return {};
    });
  }

  Value countersOnStack() {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&frame.function.getBody().front());
    return LLVM::AllocaOp::create(b, loc, frame.ptrType(), i64(), frame.constant(numDigits));
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  Value positions, keys, spare, length, zero, one;
};

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
  void emitRow(Value start, SmallVector<sym::Expr> position) {
    sym::Expr size = domain.back();
    Type i64 = b.getI64Type();
    position.push_back(0);
    body.emitAvailable();
    emitVectorLoop(frame, 0, size, size, lanes, [&](sym::Expr base, Value mask) {
      BodyEmitter::Scope scope(body);
      position.back() = base + body.setLanes(lanes, mask);
      body.setDim(position.size() - 1, position.back());
      body.store(frame.resultBuffer(1), i64, sym::linearize(position, domain),
                 body.emitYield().front());
    });
    SmallVector<Value> arguments;
    for (unsigned buffer : {0, 1, 2}) // positions, keys, spare
      arguments.push_back(frame.gep(frame.resultBuffer(buffer), i64, start));
    arguments.push_back(frame.emit(size));
    auto byMerging = [&] {
      RowOrder(frame, arguments[0], arguments[1], arguments[2], arguments[3]).emitByMerging();
    };
    // Much code, which depends on nothing but its arguments.
    auto byDigits = [&] {
      frame.call("order_of_long_row", arguments, [](KernelFrame &function) {
        auto next = function.function.getArguments();
        RowOrder(function, next[0], next[1], next[2], next[3]).emitByDigits();
      });
    };
    if (frame.assumptions.isLessOrEqual(size, longRow - 1))
      return byMerging();
    if (frame.assumptions.isLessOrEqual(longRow, size))
      return byDigits();
    Value isLong = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, arguments.back(),
                                         frame.constant(longRow));
    auto choice = scf::IfOp::create(b, loc, isLong, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(choice.thenBlock());
    byDigits();
    b.setInsertionPointToStart(choice.elseBlock());
    byMerging();
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
