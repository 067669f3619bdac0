// Plans and writes the function of a kernel.sort: rows in parallel, by keys that were computed
// before. Short rows are sorted by a bottom-up merge of positions between two buffers. Long ones go
// digit by digit, the last one first: a row is moved, in order, once for each 8 bits of the longest
// key. What is moved are words of key and position, if both fit into 64 bits, else positions alone.
// Where only the first few positions are wanted, a row is gone through once: what comes before the
// last of those that are the first so far is put behind them, and when there are some of these they
// are sorted.
#include "kiln/Codegen/KernelEmitters.h"
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Dialect/Kernel/Sort.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

/// Rows of as many elements are sorted by digits.
static constexpr int64_t longRow = 64;
/// Among those, the ones with keys that take twice as many passes, all over memory, are as short as
/// this merged nevertheless.
static constexpr int64_t longRowOfWideKeys = 256;
static constexpr int64_t bitsOfDigit = 8;
/// The first of a row are picked out of rows of as many times their number.
static constexpr int64_t manyTimesFirst = 16;

/// Places for the first `first` of a row and what may become one of them.
static int64_t chooseCandidates(int64_t first) { return std::max<int64_t>(4 * first, 128); }

namespace {
/// Code that leaves the order of `length` keys in `positions`.
class RowOrder {
public:
  RowOrder(KernelFrame &frame, SortAttr schedule, ValueRange arguments)
      : frame(frame), b(frame.builder), loc(frame.loc), schedule(schedule),
        digitBits(schedule.getDigitBits()), numDigits(int64_t(1) << digitBits),
        positions(arguments[0]), keys(arguments[1]), spare(arguments[2]), length(arguments[3]),
        zero(frame.constant(0)), one(frame.constant(1)) {}

  void emitByMerging() {
    forEachPlace(length, [&](Value i) { store(positions, i, i); });
    emitMerges(positions, spare, length);
  }

  /// Leaves the first `first` alone there; the row has more than that and than candidates.
  void emitFirst(int64_t first) {
    int64_t most = schedule.getCandidates();
    Value no = arith::ConstantIntOp::create(b, loc, 0, 1);
    Value yes = arith::ConstantIntOp::create(b, loc, 1, 1);
    Value all = frame.constant(std::numeric_limits<int64_t>::max());
    // How many candidates there are, the last key of the first, whether that is known.
    auto candidates =
        frame.emitLoop(zero, length, 1, ValueRange{zero, all, no}, [&](Value i, ValueRange state) {
          Value mayCount = arith::OrIOp::create(b, loc, less(load(keys, i), state[1]),
                                                arith::XOrIOp::create(b, loc, state[2], yes));
          auto branch = scf::IfOp::create(b, loc, state.getTypes(), mayCount,
                                          /*withElseRegion=*/true);
          OpBuilder::InsertionGuard guard(b);
          b.setInsertionPointToStart(branch.elseBlock());
          scf::YieldOp::create(b, loc, state);
          b.setInsertionPointToStart(branch.thenBlock());
          store(spare, state[0], i);
          Value count = add(state[0], one);
          auto full = scf::IfOp::create(
              b, loc, state.getTypes(),
              arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, count, frame.constant(most)),
              /*withElseRegion=*/true);
          scf::YieldOp::create(b, loc, full.getResults());
          b.setInsertionPointToStart(full.elseBlock());
          scf::YieldOp::create(b, loc, ValueRange{count, state[1], state[2]});
          b.setInsertionPointToStart(full.thenBlock());
          emitMerges(spare, positions, count);
          Value last = load(keys, load(spare, frame.constant(first - 1)));
          scf::YieldOp::create(b, loc, ValueRange{frame.constant(first), last, yes});
          return SmallVector<Value>(branch.getResults());
        });
    emitMerges(spare, positions, candidates[0]);
    forEachPlace(frame.constant(first), [&](Value i) { store(positions, i, load(spare, i)); });
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
    emitDigits(
        placeBits, allBits,
        [&](Value i) -> Value {
          Value word = shiftLeft(add(load(keys, i), bias), placeBits);
          return arith::OrIOp::create(b, loc, word, i);
        },
        [](Value word) { return word; },
        [&](Value word) -> Value { return arith::AndIOp::create(b, loc, word, mask); });
    b.setInsertionPointToStart(fits.elseBlock());
    auto isShort = scf::IfOp::create(b, loc, less(length, frame.constant(schedule.getWideFrom())),
                                     /*withElseRegion=*/true);
    b.setInsertionPointToStart(isShort.thenBlock());
    emitByMerging();
    b.setInsertionPointToStart(isShort.elseBlock());
    emitDigits(
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

  /// Passes from one of two buffers to the other and back as long as `state` is less than `end`:
  /// each gives the next one. Returns where the last has left what it has moved, `first` if there
  /// is none.
  Value emitPasses(Value state, Value end, Value first, Value second,
                   function_ref<Value(Value state, Value from, Value to)> pass) {
    auto passes = scf::WhileOp::create(
        b, loc, TypeRange{i64(), frame.ptrType(), frame.ptrType()},
        ValueRange{state, first, second},
        [&](OpBuilder &, Location, ValueRange now) {
          scf::ConditionOp::create(b, loc, less(now[0], end), now);
        },
        [&](OpBuilder &, Location, ValueRange now) {
          Value next = pass(now[0], now[1], now[2]);
          scf::YieldOp::create(b, loc, ValueRange{next, now[2], now[1]});
        });
    return passes.getResult(1);
  }

  /// Leaves the `length` positions in `order` in their order; what is equal keeps its own.
  void emitMerges(Value order, Value other, Value length) {
    // While runs of `width` are not everything, pairs of them are merged into the other buffer.
    Value result =
        emitPasses(one, length, order, other, [&](Value width, Value from, Value to) -> Value {
          Value twice = add(width, width);
          auto pairs = scf::ForOp::create(b, loc, zero, length, twice);
          OpBuilder::InsertionGuard guard(b);
          b.setInsertionPointToStart(pairs.getBody());
          emitMerge(pairs.getInductionVar(), width, length, from, to);
          return twice;
        });
    // After an odd number of passes the order is in the other buffer.
    Value elsewhere = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, result, order);
    auto copy = scf::IfOp::create(b, loc, elsewhere, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(copy.thenBlock());
    forEachPlace(length, [&](Value i) { store(order, i, load(result, i)); });
  }

  /// [first, first + width) and what follows it, each sorted. Both candidates are loaded whether
  /// they exist or not (from places that do), so that there is nothing to branch on.
  void emitMerge(Value first, Value width, Value length, Value from, Value to) {
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
  void emitDigits(Value begin, Value end, Function start, Function key, Function finish) {
    forEachPlace(length, [&](Value i) { store(positions, i, start(i)); });
    Value result =
        emitPasses(begin, end, positions, spare, [&](Value shift, Value from, Value to) -> Value {
          emitPass(shift, key, from, to);
          return add(shift, frame.constant(digitBits));
        });
    forEachPlace(length, [&](Value i) { store(positions, i, finish(load(result, i))); });
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
  SortAttr schedule;
  int64_t digitBits, numDigits;
  Value positions, keys, spare, length, zero, one;
};

class SortEmitter {
public:
  SortEmitter(KernelFrame &frame, kernel::SortOp sort)
      : frame(frame), b(frame.builder), loc(frame.loc), body(frame, sort.getBody()),
        domain(sort.getExtents()), first(kernel::getFirst(sort)),
        schedule(getSchedule<SortAttr>(frame.func)) {}

  void emit() {
    SmallVector<sym::Expr> rows(ArrayRef(domain).drop_back());
    RowTasks tasks{sym::product(rows), 1, schedule.getRows(), 0};
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
    int64_t lanes = schedule.getLanes();
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
    auto byMerging = [&] { RowOrder(frame, schedule, arguments).emitByMerging(); };
    // Much code, which depends on nothing but its arguments and what its name says.
    auto byDigits = [&] {
      std::string name = llvm::formatv("order_of_long_row_{0}_{1}", schedule.getDigitBits(),
                                       schedule.getWideFrom());
      frame.call(name, arguments, [schedule = schedule](KernelFrame &function) {
        RowOrder(function, schedule, function.function.getArguments()).emitByDigits();
      });
    };
    auto byLength = [&](int64_t longest, function_ref<void()> ofLong,
                        function_ref<void()> ofShort) {
      if (frame.assumptions.isLessOrEqual(size, longest - 1))
        return ofShort();
      if (frame.assumptions.isLessOrEqual(longest, size))
        return ofLong();
      Value isLong = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, arguments.back(),
                                           frame.constant(longest));
      auto choice = scf::IfOp::create(b, loc, isLong, /*withElseRegion=*/true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(choice.thenBlock());
      ofLong();
      b.setInsertionPointToStart(choice.elseBlock());
      ofShort();
    };
    auto all = [&] { byLength(schedule.getDigitsFrom(), byDigits, byMerging); };
    if (!first || !schedule.getPickFrom())
      return all();
    auto picked = [&] {
      std::string name =
          llvm::formatv("first_{0}_of_long_row_{1}", *first, schedule.getCandidates());
      frame.call(name, arguments, [schedule = schedule, number = *first](KernelFrame &function) {
        RowOrder(function, schedule, function.function.getArguments()).emitFirst(number);
      });
    };
    byLength(schedule.getPickFrom(), picked, all);
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  BodyEmitter body;
  SmallVector<sym::Expr> domain;
  std::optional<int64_t> first;
  SortAttr schedule;
};
} // namespace

SortAttr codegen::getSortSchedule(kernel::SortOp sort, int64_t rows, int64_t lanes) {
  std::optional<int64_t> first = kernel::getFirst(sort);
  int64_t candidates = chooseCandidates(first.value_or(0));
  int64_t pickFrom = first ? std::max(manyTimesFirst * *first, 2 * candidates) : 0;
  return SortAttr::get(sort.getContext(), rows, lanes, longRow, pickFrom, longRowOfWideKeys,
                       bitsOfDigit, candidates);
}

FailureOr<KernelPlan> codegen::planSort(kernel::FuncOp func, const CPUInfo &target) {
  auto sort = cast<kernel::SortOp>(func.getRoot());
  if (failed(verifyValueTypes(sort)))
    return failure();
  SmallVector<sym::Expr> domain = sort.getExtents();
  sym::Expr numRows = sym::product(ArrayRef(domain).drop_back());
  std::optional<int64_t> first = kernel::getFirst(sort);
  FailureOr<SortAttr> given = getGivenSchedule<SortAttr>(func);
  if (failed(given))
    return failure();
  if (SortAttr schedule = *given) {
    if (schedule.getPickFrom() && !first)
      return func.emitError() << schedule << " picks the first of rows that are wanted whole";
    if (schedule.getPickFrom() && schedule.getCandidates() <= *first)
      return func.emitError() << schedule << " has too few candidates for the first " << *first;
    return KernelPlan{schedule, numRows.ceilDiv(schedule.getRows())};
  }
  double length = std::max<int64_t>(2, estimate(domain.back()));
  double rowCycles = length * (first ? 1 : std::log2(length)) * double(target.stepCost);
  RowTasks tasks = RowTasks::make(numRows, 1, rowCycles, 1, target);
  int64_t lanes = std::min<int64_t>(preferredLanes(sort.getBody(), target), target.vectorBytes / 8);
  SortAttr schedule = getSortSchedule(sort, tasks.rowBlock, lanes);
  return planRows(schedule, tasks, rowCycles);
}

LogicalResult codegen::emitSort(KernelFrame &frame, kernel::SortOp sort) {
  SortEmitter(frame, sort).emit();
  return success();
}
