// A bitonic network over a block's elements: compares and exchanges in registers, and changes of
// layout through shared memory (SortNetwork.h).
#include "CUDA/Ordered/SortNetwork.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Also the alignment, of which LLVM's own idea is less for 64 bits.
static unsigned bytesOf(Type type) { return type.getIntOrFloatBitWidth() / 8; }

/// Bits of a lane's number.
static constexpr int64_t laneBits = 5;
static_assert(1 << laneBits == warpSize);

bool SortNetwork::mayHave(int64_t places, int64_t threads) {
  int64_t elements = places / threads;
  return llvm::isPowerOf2_64(places) && llvm::isPowerOf2_64(threads) && threads >= warpSize &&
         places >= leastPlaces && elements >= leastElements && elements <= mostElements;
}

SortNetwork::SortNetwork(DeviceFrame &frame, TypeRange types, int64_t perThread)
    : elements(perThread), frame(frame), b(frame.builder), loc(frame.loc), types(types),
      bits(llvm::Log2_64(perThread)), placeBits(llvm::Log2_64(perThread * frame.numThreads)),
      numChunks(llvm::divideCeil(placeBits, bits)) {
  int64_t places = int64_t(1) << placeBits;
  for (Type type : types)
    shared.push_back(frame.allocateShared((places + (places >> bits)) * bytesOf(type)));
}

Value SortNetwork::getPlace(int64_t i) {
  return arith::AddIOp::create(b, loc, frame.thread, frame.constant(i * frame.numThreads));
}

int64_t SortNetwork::layoutOf(int64_t chunk) const {
  return std::min(firstBit(chunk), placeBits - bits);
}

void SortNetwork::sort() {
  sortThreads();
  for (int64_t chunk = 1; chunk < numChunks; ++chunk)
    sortChunk(chunk);
  changeLayout(0, placeBits - bits);
}

/// The stages that make runs of up to a thread's elements.
void SortNetwork::sortThreads() {
  for (int64_t stage = 1; stage < bits; ++stage)
    compareSteps(stage - 1, 0, {stage, Value()});
  Value odd = arith::AndIOp::create(b, loc, frame.thread, frame.constant(1));
  Value descends = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, odd, frame.constant(0));
  compareSteps(bits - 1, 0, {-1, descends});
}

/// The stages that begin with a step of the chunk. They differ in where they enter it. The rest,
/// all of the chunks below, is the same code for each of them.
void SortNetwork::sortChunk(int64_t chunk) {
  int64_t first = firstBit(chunk), layout = layoutOf(chunk);
  int64_t numStages = std::min(bits, placeBits - first);
  SmallVector<Value> sorted = frame.emitLoop(
      frame.constant(1), frame.constant(numStages + 1), 1, flatten(),
      [&](Value stage, ValueRange values) {
        unflatten(values);
        changeLayout(0, layout);
        // The lower layouts have the stage's bit in the thread's number, above their own bits.
        Value bit = arith::AddIOp::create(b, loc, stage, frame.constant(first - bits));
        Value odd = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, frame.thread, bit),
                                          frame.constant(1));
        Value descends =
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, odd, frame.constant(0));
        for (int64_t i = 1; i <= numStages; ++i) {
          Value isHere = numStages == 1 ? Value()
                                        : arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                                                stage, frame.constant(i));
          unflatten(frame.emitWhere(isHere, flatten(), [&] {
            int64_t top = first + i - layout;
            compareSteps(top - 1, first - layout,
                         top < bits ? Direction{top, Value()} : Direction{-1, descends});
            return flatten();
          }));
        }
        for (int64_t below = chunk; below-- > 0;) {
          changeLayout(layoutOf(below + 1), layoutOf(below));
          compareSteps(bits - 1, 0, {-1, descends});
        }
        return flatten();
      });
  unflatten(sorted);
}

void SortNetwork::merge() {
  for (int64_t chunk = numChunks; chunk-- > 0;) {
    int64_t first = firstBit(chunk), layout = layoutOf(chunk);
    compareSteps(std::min(first + bits, placeBits) - layout - 1, first - layout, {});
    changeLayout(layout, chunk ? layoutOf(chunk - 1) : placeBits - bits);
  }
}

void SortNetwork::compareSteps(int64_t last, int64_t first, Direction direction) {
  for (int64_t bit = last; bit >= first; --bit)
    for (int64_t i = 0; i < int64_t(elements.size()); ++i)
      if (!((i >> bit) & 1))
        exchange(i, i | (int64_t(1) << bit), direction);
}

void SortNetwork::exchange(int64_t i, int64_t j, Direction direction) {
  if (direction.bit >= 0 && ((i >> direction.bit) & 1))
    std::swap(i, j);
  Value isWrong = isGreater(elements[i], elements[j]);
  if (direction.descends)
    isWrong = arith::XOrIOp::create(b, loc, isWrong, direction.descends);
  // LLVM would make a minimum and a maximum of two selects, each with a comparison of its own.
  for (auto [x, y] : llvm::zip_equal(elements[i], elements[j])) {
    Value less = arith::SelectOp::create(b, loc, isWrong, y, x);
    y = arith::XOrIOp::create(b, loc, arith::XOrIOp::create(b, loc, x, y), less);
    x = less;
  }
}

Value SortNetwork::isGreater(const Element &x, const Element &y) {
  Value result;
  for (auto [a, c] : llvm::reverse(llvm::zip_equal(x, y))) {
    Value greater = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, a, c);
    if (result) {
      Value equal = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, a, c);
      greater = arith::OrIOp::create(b, loc, greater, arith::AndIOp::create(b, loc, equal, result));
    }
    result = greater;
  }
  return result;
}

void SortNetwork::changeLayout(int64_t from, int64_t to) {
  if (from == to)
    return;
  bool ofWarp = std::max(from, to) <= laneBits;
  sync(ofWarp && !isBlockReading); // others have read what was here before
  for (auto [i, element] : llvm::enumerate(elements))
    for (auto [number, value] : llvm::enumerate(element))
      LLVM::StoreOp::create(b, loc, value, address(number, from, i), bytesOf(types[number]));
  sync(ofWarp);
  for (auto [i, element] : llvm::enumerate(elements))
    for (auto [number, value] : llvm::enumerate(element))
      value = LLVM::LoadOp::create(b, loc, types[number], address(number, to, i),
                                   bytesOf(types[number]));
  isBlockReading = !ofWarp;
}

void SortNetwork::sync(bool ofWarp) {
  if (ofWarp)
    NVVM::SyncWarpOp::create(b, loc, arith::ConstantIntOp::create(b, loc, -1, 32));
  else
    frame.emitBarrier();
}

Value SortNetwork::firstPlace(int64_t layout) {
  Value low =
      arith::AndIOp::create(b, loc, frame.thread, frame.constant((int64_t(1) << layout) - 1));
  Value high = arith::SubIOp::create(b, loc, frame.thread, low);
  return arith::OrIOp::create(b, loc, arith::ShLIOp::create(b, loc, high, frame.constant(bits)),
                              low);
}

/// There is a hole behind every 2^bits places. Element i is `i << layout` places behind element 0,
/// and no carry comes from below, so that the distance in memory is a constant.
Value SortNetwork::address(unsigned value, int64_t layout, int64_t i) {
  Value place = firstPlace(layout);
  Value holes = arith::ShRUIOp::create(b, loc, place, frame.constant(bits));
  Value base = frame.gep(shared[value], types[value], arith::AddIOp::create(b, loc, place, holes));
  int64_t distance = i << layout;
  return frame.gep(base, types[value], frame.constant(distance + (distance >> bits)));
}

SmallVector<Value> SortNetwork::flatten() const {
  SmallVector<Value> values;
  for (const Element &element : elements)
    llvm::append_range(values, element);
  return values;
}

void SortNetwork::unflatten(ValueRange values) {
  for (Element &element : elements) {
    element.assign(values.take_front(types.size()).begin(), values.take_front(types.size()).end());
    values = values.drop_front(types.size());
  }
}

bool cuda::fitsWord(Value value) {
  if (value.getType().getIntOrFloatBitWidth() <= 32)
    return true;
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.isSignedIntN(32);
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([](arith::ExtSIOp extended) {
        return extended.getIn().getType().getIntOrFloatBitWidth() <= 32;
      })
      .Case([](arith::ExtUIOp extended) {
        return extended.getIn().getType().getIntOrFloatBitWidth() < 32;
      })
      .Case([](arith::SelectOp select) {
        return fitsWord(select.getTrueValue()) && fitsWord(select.getFalseValue());
      })
      .Case<arith::XOrIOp, arith::AndIOp, arith::OrIOp, arith::MinSIOp, arith::MaxSIOp>(
          [](auto both) { return fitsWord(both.getLhs()) && fitsWord(both.getRhs()); })
      .Default(false);
}
