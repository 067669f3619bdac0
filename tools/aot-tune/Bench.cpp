// Times the candidates of one kernel.
//
// Turns. A machine has slow spells, so candidates are timed in rounds: each round times all that are
// left, in another order. Those that are clearly slower leave early. The fastest then has to win
// again, alone against the first candidate, in rounds that nothing has been chosen by, until a sign
// test says which of both it is (Duel.h).
//
// Clocks. A GPU has one of its own. Otherwise, with one thread the time is the thread's own: other programs on the machine take turns
// with it, but their turns do not count. Several threads are timed by the clock on the wall.
//
// Caches. Activations are in the caches when a kernel begins, as the one before it has left them.
// Weights are where a run of all the model leaves them: each run takes another copy, of as many as
// make up the model's weights, up to what no cache holds.
#include "Bench.h"
#include "Duel.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

using namespace llvm;
using namespace kiln;
using namespace kiln::tune;

using Clock = std::chrono::steady_clock;

/// A sample takes at least this, since the clock and a call cost something.
static constexpr double sampleSeconds = 2e-4;
static constexpr uint64_t mostRotated = uint64_t(192) << 20;

namespace {
/// The same numbers each time: data and turns that a measurement can be repeated with.
class Random {
public:
  using result_type = uint32_t;
  static constexpr uint32_t min() { return 0; }
  static constexpr uint32_t max() { return UINT32_MAX; }
  uint32_t operator()() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 32);
  }

private:
  uint64_t state = 1;
};
} // namespace

static double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

static double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Bench::~Bench() {
  for (void *block : memory)
    machine.release(block);
}

Expected<std::unique_ptr<Bench>> Bench::create(const tuning::Kernel &kernel, const Library &library,
                                               Machine &machine, int64_t weightBytes,
                                               uint64_t mostCopies) {
  std::unique_ptr<Bench> bench(new Bench(kernel, library, machine));
  for (const tuning::Candidate &candidate : kernel.candidates) {
    Expected<int32_t> step = library.find(candidate.step);
    if (!step)
      return step.takeError();
    bench->steps.push_back(*step);
  }
  if (Error error = bench->allocate(weightBytes, mostCopies))
    return error;
  bench->fillOperands(0);
  return bench;
}

Error Bench::allocate(int64_t weightBytes, uint64_t mostCopies) {
  uint64_t all = 0, weights = 0;
  for (const tuning::Buffer &buffer : kernel.buffers) {
    all += *buffer.getBytes();
    if (buffer.isConstant)
      weights += *buffer.getBytes();
  }
  uint64_t rotated = std::min<uint64_t>(std::max<int64_t>(weightBytes, 0), mostRotated);
  // Rounded up: all of the model's other weights are read between two runs.
  uint64_t copies = weights ? std::clamp<uint64_t>(divideCeil(rotated, weights), 1, mostCopies) : 1;
  if (all + (copies - 1) * weights > mostMemory)
    return createStringError("it needs more than 8 GiB of memory");
  sets.resize(copies);
  tensors.resize(copies);
  for (const tuning::Buffer &buffer : kernel.buffers) {
    DLTensor tensor{nullptr,
                    machine.getDevice(),
                    static_cast<int32_t>(buffer.sizes.size()),
                    {buffer.code, buffer.bits, 1},
                    const_cast<int64_t *>(buffer.sizes.data()),
                    nullptr,
                    0};
    for (size_t i = 0; i < copies; ++i) {
      if (i == 0 || buffer.isConstant) {
        tensor.data = machine.allocate(*buffer.getBytes());
        if (!tensor.data)
          return createStringError("out of memory");
        memory.push_back(tensor.data);
      }
      sets[i].push_back(tensor);
    }
  }
  for (size_t i = 0; i < copies; ++i)
    for (const DLTensor &tensor : sets[i])
      tensors[i].push_back(&tensor);
  return Error::success();
}

//===-- Data --------------------------------------------------------------------------------===//

/// Values in [-1, 1].
template <typename T, typename Convert>
static void fillFloats(void *data, size_t bytes, Random &random, Convert convert) {
  auto *values = static_cast<T *>(data);
  size_t count = bytes / sizeof(T);
  // Weights may be large, and numbers of a period as good as any.
  constexpr size_t period = 65521;
  for (size_t i = 0; i < std::min(count, period); ++i)
    values[i] = convert(static_cast<float>(random()) / 2147483648.0f - 1.0f);
  for (size_t i = period; i < count; i += period)
    std::memcpy(values + i, values, std::min(period, count - i) * sizeof(T));
}

static uint16_t toHalf(float value) {
  // Values up to 1 give no infinities; those below the smallest normal number become 0.
  uint32_t word = bit_cast<uint32_t>(value);
  uint32_t sign = word >> 16 & 0x8000, magnitude = word & 0x7fffffff;
  return static_cast<uint16_t>(magnitude < 0x38800000 ? sign
                                                      : sign | ((magnitude - 0x38000000) >> 13));
}

static void fillWith(const tuning::Buffer &buffer, void *data, int64_t integer, Random &random) {
  size_t bytes = *buffer.getBytes();
  unsigned bits = buffer.code == kDLComplex ? buffer.bits / 2 : buffer.bits;
  if (buffer.code == kDLFloat || buffer.code == kDLComplex) {
    if (bits == 64)
      return fillFloats<double>(data, bytes, random, [](float v) { return double(v); });
    if (bits == 32)
      return fillFloats<float>(data, bytes, random, [](float v) { return v; });
    if (bits == 16)
      return fillFloats<uint16_t>(data, bytes, random, toHalf);
  }
  if (buffer.code == kDLBfloat && bits == 16)
    return fillFloats<uint16_t>(data, bytes, random, [](float v) {
      return static_cast<uint16_t>(bit_cast<uint32_t>(v) >> 16);
    });
  if (buffer.code == kDLBool)
    integer = 1;
  // Integers are places in tensors, or numbers that something is divided by.
  std::memset(data, 0, bytes);
  for (size_t i = 0; i < bytes; i += bits / 8)
    static_cast<char *>(data)[i] = static_cast<char>(integer);
}

void tune::fill(const tuning::Buffer &buffer, void *data, int64_t integer) {
  Random random;
  fillWith(buffer, data, integer, random);
}

/// The same in the machine's memory.
static void fillOn(Machine &machine, const tuning::Buffer &buffer, void *data, int64_t integer,
                   Random &random) {
  if (!machine.isDevice())
    return fillWith(buffer, data, integer, random);
  std::vector<char> values(*buffer.getBytes());
  fillWith(buffer, values.data(), integer, random);
  machine.write(data, values.data(), values.size());
}

void Bench::fillOperands(int64_t integer) {
  for (std::vector<DLTensor> &set : sets) {
    Random random;
    for (auto [buffer, tensor] : zip_equal(kernel.buffers, set))
      if (!buffer.isResult && (&set == &sets.front() || buffer.isConstant))
        fillOn(machine, buffer, tensor.data, integer, random);
  }
}

/// Bytes that no result has by chance: NaNs.
void Bench::poisonResults() {
  for (auto [buffer, tensor] : zip_equal(kernel.buffers, sets.front()))
    if (buffer.isResult) {
      std::vector<char> poison(*buffer.getBytes(), '\xff');
      machine.write(tensor.data, poison.data(), poison.size());
    }
}

//===-- Results -----------------------------------------------------------------------------===//

static float fromHalf(uint16_t half) {
  uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00) // infinities and NaNs
    return bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  return std::ldexp(bit_cast<float>(sign | (magnitude << 13)), 127 - 15);
}

/// Element `i`, or part of a complex one.
static double load(const char *values, size_t i, bool isBfloat, unsigned bits) {
  auto get = [&]<typename T>(T value) {
    std::memcpy(&value, values + i * sizeof(T), sizeof(T));
    return value;
  };
  if (bits == 64)
    return get(double());
  if (bits == 32)
    return get(float());
  return isBfloat ? bit_cast<float>(uint32_t(get(uint16_t())) << 16) : fromHalf(get(uint16_t()));
}

/// Sums are made in another order, so values differ by what rounding does to the largest of them.
static bool floatsDiffer(const char *a, const char *b, size_t bytes, bool isBfloat, unsigned bits) {
  double most = 0, difference = 0;
  for (size_t i = 0; i < bytes * 8 / bits; ++i) {
    double left = load(a, i, isBfloat, bits), right = load(b, i, isBfloat, bits);
    if (std::isnan(left) != std::isnan(right))
      return true;
    if (!std::isfinite(left))
      continue;
    most = std::max(most, std::abs(left));
    difference = std::max(difference, std::abs(left - right));
  }
  return !(difference <= (bits == 16 ? 3e-2 : 1e-3) * most);
}

bool tune::differ(const tuning::Buffer &buffer, const char *a, const char *b) {
  size_t bytes = *buffer.getBytes(), item = buffer.bits / 8;
  bool isBfloat = buffer.code == kDLBfloat, isComplex = buffer.code == kDLComplex;
  if (buffer.code == kDLFloat || isBfloat || isComplex)
    return floatsDiffer(a, b, bytes, isBfloat, isComplex ? buffer.bits / 2 : buffer.bits);
  // Rounding may turn a comparison here and there.
  size_t different = 0;
  for (size_t i = 0; i < bytes; i += item)
    different += std::memcmp(a + i, b + i, item) != 0;
  return different > bytes / item / 64;
}

std::vector<char> Bench::readResult(const DLTensor &tensor, uint64_t bytes) const {
  std::vector<char> values(bytes);
  machine.read(values.data(), tensor.data, bytes);
  return values;
}

bool Bench::differs() const {
  auto before = expected.begin();
  for (auto [buffer, tensor] : zip_equal(kernel.buffers, sets.front()))
    if (buffer.isResult &&
        differ(buffer, (before++)->data(), readResult(tensor, *buffer.getBytes()).data()))
      return true;
  return false;
}

Error Bench::run(size_t candidate) {
  turn = (turn + 1) % sets.size();
  return library.run(steps[candidate], tensors[turn], kernel.candidates[candidate].symbols);
}

Error Bench::tryOut(size_t candidate) {
  turn = sets.size() - 1; // the first set is next
  poisonResults();
  auto runOnce = [&]() -> Error {
    if (Error error = run(candidate))
      return error;
    return library.wait();
  };
  Error error = runOnce();
  if (error && candidate == 0) {
    // Something is divided by the zeros.
    consumeError(std::move(error));
    fillOperands(1);
    turn = sets.size() - 1;
    error = runOnce();
  }
  if (error)
    return error;
  if (candidate != 0)
    return differs() ? createStringError("it computes something else") : Error::success();
  for (auto [buffer, tensor] : zip_equal(kernel.buffers, sets.front()))
    if (buffer.isResult)
      expected.push_back(readResult(tensor, *buffer.getBytes()));
  return Error::success();
}

//===-- Times -------------------------------------------------------------------------------===//

double Bench::sample(size_t candidate, unsigned count) {
  machine.start();
  if (count > 1)
    start(candidate); // the code is in no cache yet
  machine.mark();
  for (unsigned i = 0; i < count; ++i)
    start(candidate);
  machine.mark();
  return machine.finish().front() / count;
}

Timing Bench::time(ArrayRef<size_t> candidates, double seconds) {
  Timing timing;
  timing.ratios.assign(kernel.candidates.size(), 0);
  double once = sample(0, 1);
  for (int i = 0; i < 3; ++i)
    once = std::min(once, sample(0, 1));
  auto count = static_cast<unsigned>(std::clamp(std::ceil(sampleSeconds / once), 1.0, 1000.0));

  std::vector<size_t> left(candidates);
  std::vector<double> least(kernel.candidates.size(), 1e30);
  std::vector<double> firstTimes;
  Random random;
  Clock::time_point start = Clock::now();
  auto timeRound = [&] {
    std::shuffle(left.begin(), left.end(), random);
    for (size_t candidate : left) {
      double time = sample(candidate, count);
      least[candidate] = std::min(least[candidate], time);
      if (candidate == 0)
        firstTimes.push_back(time);
    }
  };
  // Whatever else runs on this machine only adds to a time: the least one is the most telling.
  auto keep = [&](size_t most, double slowest) {
    llvm::sort(left,
               [&](size_t a, size_t b) { return std::pair(least[a], a) < std::pair(least[b], b); });
    std::vector<size_t> kept = {0};
    for (size_t candidate : left)
      if (candidate != 0 && kept.size() <= most && least[candidate] <= slowest * least[0])
        kept.push_back(candidate);
    left = kept;
  };
  constexpr int firstRounds = 3, secondRounds = 6;
  for (int i = 0; i < firstRounds; ++i)
    timeRound();
  keep(/*most=*/6, /*slowest=*/1.03);
  if (left.size() > 1)
    for (int i = 0; i < secondRounds; ++i)
      timeRound();
  for (size_t candidate : candidates)
    timing.ratios[candidate] = least[candidate] / least[0];
  keep(/*most=*/1, /*slowest=*/1 - Duel::leastGain);
  timing.seconds = median(firstTimes);
  if (left.size() == 1)
    return timing;

  // Once more, since being the fastest of many may be luck.
  size_t best = left.back();
  Duel duel;
  for (int i = 0; !duel.isDecided() && (i < Duel::leastRounds || secondsSince(start) < seconds);
       ++i) {
    double before = i % 2 == 0 ? sample(0, count) : 0, after = sample(best, count);
    duel.add(i % 2 == 0 ? before : sample(0, count), after);
  }
  timing.ratios[best] = duel.getRatio();
  if (duel.isWon())
    timing.best = best;
  return timing;
}
