// Sorts: a block has a row and sorts it by a bitonic network over pairs of key and position, of
// which no two are equal. A row that fits registers is sorted there (SortNetwork.h), a short one in
// shared memory. A longer one, or one of unknown length, is sorted where the results are, by the
// form of the network that only rises (its stages begin with exchanges between mirror images): what
// would be behind the row's end stays there, and need not exist. Where only the first few positions
// of a long row are wanted, it is gone through once: threads put what comes before the last of
// those that are the first so far into places of their own, and when one of them has none left all
// places are sorted.
#include "CUDA/Ordered/SortNetwork.h"
#include "kiln/Codegen/BodyEmitter.h"
#include "kiln/Dialect/Kernel/Sort.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Elements of a row whose keys and positions fit 48 KB.
static constexpr int64_t mostElements = 4096;
/// Shorter rows are left to a thread each.
static constexpr int64_t shortRow = 16;
static constexpr int64_t mostSortThreads = 512;

/// Elements of a row that a thread has in registers.
static constexpr int64_t sortElements = 16;

/// The threads of a row in the results' memory, where no length is known to be short.
static constexpr int64_t longThreads = 512;

/// The elements of a row that a thread reads at once if its first elements are wanted.
static constexpr int64_t readAtOnce = 4;

/// The elements that the network has, a power of two; nullopt: too many for shared memory, or not
/// known.
static std::optional<int64_t> getWidth(kernel::SortOp sort) {
  auto length = sort.getExtents().back().constant();
  return length && *length <= mostElements
             ? std::optional<int64_t>(llvm::PowerOf2Ceil(std::max<int64_t>(*length, 1)))
             : std::nullopt;
}

bool cuda::isBlockSort(kernel::SortOp sort) {
  return sort.getExtents().back().constant().value_or(shortRow) >= shortRow;
}

/// The places that a row takes in shared memory, and why.
static std::pair<int64_t, StringRef> choosePlaces(kernel::SortOp sort) {
  if (std::optional<int64_t> width = getWidth(sort))
    return {*width, "a row fits shared memory"};
  if (kernel::getFirst(sort))
    return {mostElements, "a few elements at the front of long rows are wanted"};
  return {0, "a row is too long for shared memory, or of unknown length"};
}

/// Places of the first elements so far, of which all threads have the rest.
static int64_t countKept(int64_t first) {
  return std::max<int64_t>(llvm::PowerOf2Ceil(first), warpSize);
}

/// Fails where rows are not sorted in so many places.
static LogicalResult verifyPlaces(SortScheduleAttr schedule, kernel::FuncOp func,
                                  kernel::SortOp sort) {
  int64_t places = schedule.getPlaces();
  auto length = sort.getExtents().back().constant(), first = kernel::getFirst(sort);
  if (!places || (length && *length <= places))
    return success();
  if (!first || (places - countKept(*first)) / schedule.getThreads() < readAtOnce)
    return func.emitError("places = ") << places << ", which is too few for the rows of this sort";
  return success();
}

FailureOr<KernelPlan> cuda::planSort(kernel::FuncOp func) {
  auto sort = cast<kernel::SortOp>(func.getRoot());
  if (failed(codegen::verifyValueTypes(sort)))
    return failure();
  sym::Expr rows = sym::product(ArrayRef(sort.getExtents()).drop_back());
  if (kernel::ScheduleAttrInterface given = func.getScheduleAttr()) {
    auto schedule = dyn_cast<SortScheduleAttr>(given);
    if (!schedule)
      return emitUnknownSchedule(func);
    if (failed(verifyPlaces(schedule, func, sort)))
      return failure();
    return KernelPlan{schedule, rows, schedule.getThreads(), givenReason};
  }
  auto [places, reason] = choosePlaces(sort);
  auto width = getWidth(sort);
  int64_t threads = longThreads;
  if (width && *width >= SortNetwork::leastPlaces)
    threads = std::max(*width / sortElements, warpSize);
  else if (width)
    threads = std::clamp(*width / 2, warpSize, mostSortThreads);
  return KernelPlan{SortScheduleAttr::get(func.getContext(), threads, places), rows, threads,
                    reason};
}

namespace {
class BlockSort {
public:
  BlockSort(DeviceFrame &frame, kernel::SortOp sort)
      : frame(frame), b(frame.builder), loc(frame.loc), sort(sort), domain(sort.getExtents()),
        body(frame, sort.getBody()) {}

  void emit() {
    ArrayRef<sym::Expr> rows = ArrayRef(domain).drop_back();
    sym::Expr row = frame.addVariable(frame.block, sym::product(rows));
    for (auto [dim, value] : llvm::enumerate(sym::delinearize(row, rows)))
      body.setDim(dim, frame.assumptions.simplify(value));
    body.emitAvailable();
    length = frame.emit(domain.back());
    Value start = frame.simplifyAndEmit(row * domain.back());
    Value results = frame.gep(frame.resultBuffer(0), b.getI64Type(), start);
    int64_t places = getSchedule<SortScheduleAttr>(frame.func).getPlaces();
    auto known = domain.back().constant();
    if (!places)
      sortResults(results, frame.gep(frame.resultBuffer(1), b.getI64Type(), start));
    else if (known && *known <= places)
      SortNetwork::mayHave(places, frame.numThreads) ? sortRegisters(places, results)
                                                     : sortShared(places, results);
    else
      pickFirst(*kernel::getFirst(sort), places, results);
  }

private:
  /// A key of 32 bits and a position are one word, else two values.
  void sortRegisters(int64_t width, Value results) {
    Type i32 = b.getI32Type(), i64 = b.getI64Type();
    bool isPacked = fitsWord(sort.getBody().front().getTerminator()->getOperand(0));
    SmallVector<Type> types{i64};
    if (!isPacked)
      types.push_back(i32);
    SortNetwork network(frame, types, width / frame.numThreads);
    Value half = frame.constant(32);
    Value last = arith::SubIOp::create(b, loc, length, frame.constant(1));
    for (auto [i, element] : llvm::enumerate(network.elements)) {
      Value place = network.getPlace(i);
      Value key = emitKeyAt(arith::MinSIOp::create(b, loc, place, last));
      if (isPacked)
        key = arith::OrIOp::create(b, loc, arith::ShLIOp::create(b, loc, key, half), place);
      // Behind the row's end is what comes behind all elements.
      key = arith::SelectOp::create(b, loc, compare(arith::CmpIPredicate::slt, place, length), key,
                                    frame.constant(std::numeric_limits<int64_t>::max()));
      element.push_back(key);
      if (!isPacked)
        element.push_back(arith::TruncIOp::create(b, loc, i32, place));
    }
    network.sort();
    for (auto [i, element] : llvm::enumerate(network.elements)) {
      Value place = network.getPlace(i);
      frame.emitIf(compare(arith::CmpIPredicate::slt, place, length), [&] {
        Value position = isPacked
                             ? arith::TruncIOp::create(b, loc, i32, element.front()).getResult()
                             : element.back();
        store(results, arith::ExtUIOp::create(b, loc, i64, position), place);
      });
    }
  }

  void sortShared(int64_t width, Value results) {
    positionType = b.getI32Type();
    keys = frame.allocateShared(width * 8);
    positions = frame.allocateShared(width * 4);
    forEach(frame.constant(width), [&](Value i) { emitKey(i); });
    sortPlaces(width);
    forEach(length, [&](Value i) {
      Value position = load(positions, positionType, i);
      store(results, arith::ExtUIOp::create(b, loc, b.getI64Type(), position), i);
    });
  }

  void pickFirst(int64_t first, int64_t places, Value results) {
    // The first ones so far, then the places of each thread.
    int64_t kept = countKept(first);
    int64_t own = (places - kept) / frame.numThreads;
    positionType = b.getI32Type();
    keys = frame.allocateShared(places * 8);
    positions = frame.allocateShared(places * 4);
    Value isFull = frame.allocateShared(4);
    Value zero = arith::ConstantIntOp::create(b, loc, 0, 32);
    Value one = arith::ConstantIntOp::create(b, loc, 1, 32);
    Value no = arith::ConstantIntOp::create(b, loc, 0, 1);
    Value yes = arith::ConstantIntOp::create(b, loc, 1, 1);
    Value nowhere = arith::ConstantIntOp::create(b, loc, std::numeric_limits<int32_t>::max(), 32);
    Value most = frame.constant(std::numeric_limits<int64_t>::max());
    auto clear = [&](int64_t from) {
      forEach(frame.constant(places - from), [&](Value i) {
        Value at = arith::AddIOp::create(b, loc, i, frame.constant(from));
        store(keys, most, at);
        store(positions, nowhere, at);
      });
      LLVM::StoreOp::create(b, loc, zero, isFull);
      frame.emitBarrier();
    };
    clear(0);
    Value place =
        arith::AddIOp::create(b, loc, frame.constant(kept),
                              arith::MulIOp::create(b, loc, frame.thread, frame.constant(own)));
    Value last = arith::SubIOp::create(b, loc, length, frame.constant(1));
    // The last key of the first ones, whether it is known, and how many places the thread has used.
    SmallVector<Value> state{most, no, frame.constant(0)};
    state = frame.emitLoop(
        frame.constant(0), length, readAtOnce * frame.numThreads, state,
        [&](Value base, ValueRange now) {
          Value used = now[2];
          SmallVector<Value> indices, read;
          for (int64_t i = 0; i < readAtOnce; ++i) {
            indices.push_back(
                arith::AddIOp::create(b, loc, arith::AddIOp::create(b, loc, base, frame.thread),
                                      frame.constant(i * frame.numThreads)));
            read.push_back(emitKeyAt(arith::MinSIOp::create(b, loc, indices.back(), last)));
          }
          for (auto [index, key] : llvm::zip(indices, read)) {
            Value mayCount =
                arith::OrIOp::create(b, loc, compare(arith::CmpIPredicate::slt, key, now[0]),
                                     arith::XOrIOp::create(b, loc, now[1], yes));
            mayCount = arith::AndIOp::create(b, loc, mayCount,
                                             compare(arith::CmpIPredicate::slt, index, length));
            frame.emitIf(mayCount, [&] {
              Value at = arith::AddIOp::create(b, loc, place, used);
              store(keys, key, at);
              store(positions, arith::TruncIOp::create(b, loc, positionType, index), at);
            });
            used = arith::AddIOp::create(b, loc, used,
                                         arith::ExtUIOp::create(b, loc, b.getI64Type(), mayCount));
          }
          frame.emitIf(compare(arith::CmpIPredicate::sgt, used, frame.constant(own - readAtOnce)),
                       [&] { LLVM::StoreOp::create(b, loc, one, isFull); });
          frame.emitBarrier();
          Value full = LLVM::LoadOp::create(b, loc, b.getI32Type(), isFull);
          frame.emitBarrier(); // before a thread that is ahead says that it has none left
          return frame.emitWhere(
              compare(arith::CmpIPredicate::ne, full, zero), {now[0], now[1], used}, [&] {
                sortPlaces(places);
                Value key = load(keys, b.getI64Type(), frame.constant(first - 1));
                frame.emitBarrier();
                clear(first);
                return SmallVector<Value>{key, yes, frame.constant(0)};
              });
        });
    sortPlaces(places);
    forEach(arith::MinSIOp::create(b, loc, length, frame.constant(first)), [&](Value i) {
      Value position = load(positions, positionType, i);
      store(results, arith::ExtUIOp::create(b, loc, b.getI64Type(), position), i);
    });
  }

  /// Sorts `width` places of shared memory.
  void sortPlaces(int64_t width) {
    emitNetwork(frame.constant(llvm::Log2_64(width)), frame.constant(width / 2),
                [&](Value left, Value run, Value distance, Value) {
                  // Runs rise and fall in turns.
                  Value rises =
                      compare(arith::CmpIPredicate::eq, arith::AndIOp::create(b, loc, left, run),
                              frame.constant(0));
                  emitExchange(left, arith::AddIOp::create(b, loc, left, distance), rises);
                });
  }

  void sortResults(Value results, Value spare) {
    positionType = b.getI64Type();
    keys = spare;
    positions = results;
    forEach(length, [&](Value i) { emitKey(i); });
    Value last = arith::SubIOp::create(
        b, loc, arith::MaxSIOp::create(b, loc, length, frame.constant(1)), frame.constant(1));
    Value stages = arith::SubIOp::create(b, loc, frame.constant(64),
                                         math::CountLeadingZerosOp::create(b, loc, last));
    Value width = arith::ShLIOp::create(b, loc, frame.constant(1), stages);
    Value half = arith::ShRUIOp::create(b, loc, width, frame.constant(1));
    emitNetwork(stages, half, [&](Value left, Value run, Value distance, Value step) {
      Value isFirst = compare(arith::CmpIPredicate::eq, step, frame.constant(0));
      Value mirror = arith::SubIOp::create(b, loc, run, frame.constant(1));
      Value right = arith::XOrIOp::create(
          b, loc, left, arith::SelectOp::create(b, loc, isFirst, mirror, distance));
      frame.emitIf(compare(arith::CmpIPredicate::slt, right, length),
                   [&] { emitExchange(left, right, Value()); });
    });
  }

  /// Runs `exchange` for each pair that meets, `numPairs` in each step: number of its left element,
  /// length of the runs that are made, distance inside them, step of the stage.
  void emitNetwork(Value numStages, Value numPairs,
                   function_ref<void(Value, Value, Value, Value)> exchange) {
    Value one = frame.constant(1);
    auto stages = beginLoop(one, arith::AddIOp::create(b, loc, numStages, one));
    Value stage = stages.getInductionVar();
    auto steps = beginLoop(frame.constant(0), stage);
    Value step = steps.getInductionVar();
    frame.emitBarrier();
    Value run = arith::ShLIOp::create(b, loc, one, stage);
    Value exponent = arith::SubIOp::create(b, loc, arith::SubIOp::create(b, loc, stage, step), one);
    Value distance = arith::ShLIOp::create(b, loc, one, exponent);
    forEach(numPairs, [&](Value pair) {
      // The pair's number with a zero put in at the place of `distance`.
      Value below = arith::SubIOp::create(b, loc, distance, one);
      Value low = arith::AndIOp::create(b, loc, pair, below);
      Value high = arith::SubIOp::create(b, loc, pair, low);
      Value left = arith::AddIOp::create(b, loc, arith::AddIOp::create(b, loc, high, high), low);
      exchange(left, run, distance, step);
    });
    b.setInsertionPointAfter(stages);
    frame.emitBarrier();
  }

  Value load(Value base, Type type, Value index) {
    return LLVM::LoadOp::create(b, loc, type, frame.gep(base, type, index));
  }
  void store(Value base, Value value, Value index) {
    LLVM::StoreOp::create(b, loc, value, frame.gep(base, value.getType(), index));
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }

  /// Leaves the builder inside.
  scf::ForOp beginLoop(Value begin, Value end) {
    auto loop = scf::ForOp::create(b, loc, begin, end, frame.constant(1));
    b.setInsertionPointToStart(loop.getBody());
    return loop;
  }

  /// The block's threads take turns.
  void forEach(Value count, function_ref<void(Value)> emit) {
    auto loop = scf::ForOp::create(b, loc, frame.thread, count, frame.constant(frame.numThreads));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    emit(loop.getInductionVar());
  }

  Value emitKeyAt(Value index) {
    codegen::BodyEmitter::Scope scope(body);
    body.setDim(domain.size() - 1, frame.addVariable(index, domain.back()));
    return body.emitYield().front();
  }

  /// Behind the row's end the largest key is, at positions that no element has.
  void emitKey(Value i) {
    Value last = arith::SubIOp::create(b, loc, length, frame.constant(1));
    Value key = emitKeyAt(arith::MinSIOp::create(b, loc, i, last));
    Value isElement = compare(arith::CmpIPredicate::slt, i, length);
    Value most = frame.constant(std::numeric_limits<int64_t>::max());
    store(keys, arith::SelectOp::create(b, loc, isElement, key, most), i);
    store(positions,
          positionType.isInteger(64) ? i
                                     : arith::TruncIOp::create(b, loc, positionType, i).getResult(),
          i);
  }

  /// Puts two elements in order: rising, or as `rises` says.
  void emitExchange(Value left, Value right, Value rises) {
    Type i64 = b.getI64Type();
    Value leftKey = load(keys, i64, left), rightKey = load(keys, i64, right);
    Value leftPosition = load(positions, positionType, left);
    Value rightPosition = load(positions, positionType, right);
    Value isAfter = arith::OrIOp::create(
        b, loc, compare(arith::CmpIPredicate::sgt, leftKey, rightKey),
        arith::AndIOp::create(b, loc, compare(arith::CmpIPredicate::eq, leftKey, rightKey),
                              compare(arith::CmpIPredicate::sgt, leftPosition, rightPosition)));
    Value isWrong = rises ? compare(arith::CmpIPredicate::eq, isAfter, rises) : isAfter;
    frame.emitIf(isWrong, [&] {
      store(keys, rightKey, left);
      store(keys, leftKey, right);
      store(positions, rightPosition, left);
      store(positions, leftPosition, right);
    });
  }

  DeviceFrame &frame;
  OpBuilder &b;
  Location loc;
  kernel::SortOp sort;
  SmallVector<sym::Expr> domain;
  codegen::BodyEmitter body;
  Value length, keys, positions;
  Type positionType;
};
} // namespace

LogicalResult cuda::emitSort(DeviceFrame &frame, kernel::SortOp sort) {
  BlockSort(frame, sort).emit();
  return success();
}
