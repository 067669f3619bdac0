// Measures a roofline: products with sums that stay in registers, and reads of memory of several
// sizes, which are in one cache after the other.
#include "MachineLimits.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <thread>

using namespace kiln;
using Clock = std::chrono::steady_clock;

//===-- Loops -------------------------------------------------------------===//

// Assembly, since a compiler leaves out what nobody uses. 12 sums hide the latency of 4 cycles of
// two units.
#if defined(__x86_64__)

#define FMA_STEP(reg)                                                                              \
  "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "0\n"                                             \
  "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "1\n"                                             \
  "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "2\n"                                             \
  "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "3\n"                                             \
  "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "4\n"                                             \
  "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "5\n"                                             \
  "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "6\n"                                             \
  "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "7\n"                                             \
  "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "8\n"                                             \
  "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "9\n"                                             \
  "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "10\n"                                            \
  "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "11\n"
#define VECTOR_REGISTERS                                                                           \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",         \
      "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#define FMA_LOOP(reg)                                                                              \
  asm volatile("vzeroall\n1:\n" FMA_STEP(reg) "dec %0\njnz 1b\nvzeroupper\n"                       \
               : "+r"(steps)                                                                       \
               :                                                                                   \
               : VECTOR_REGISTERS, "cc")
#define READ_LOOP(reg, bytes)                                                                      \
  asm volatile("1:\n"                                                                              \
               "vmovups (%0), %%" reg "0\nvmovups " #bytes "(%0), %%" reg "1\n"                    \
               "vmovups 2*" #bytes "(%0), %%" reg "2\nvmovups 3*" #bytes "(%0), %%" reg "3\n"      \
               "vmovups 4*" #bytes "(%0), %%" reg "4\nvmovups 5*" #bytes "(%0), %%" reg "5\n"      \
               "vmovups 6*" #bytes "(%0), %%" reg "6\nvmovups 7*" #bytes "(%0), %%" reg "7\n"      \
               "add $8*" #bytes ", %0\ncmp %1, %0\njb 1b\nvzeroupper\n"                            \
               : "+r"(data)                                                                        \
               : "r"(end)                                                                          \
               : VECTOR_REGISTERS, "cc", "memory")

static bool hasVectors() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
static bool hasWideVectors() { return __builtin_cpu_supports("avx512f"); }

/// Returns the operations done.
static double multiplyAdd() {
  int64_t steps = 4000;
  double lanes = hasWideVectors() ? 16 : 8, operations = 2.0 * 12 * lanes * steps;
  if (hasWideVectors())
    FMA_LOOP("zmm");
  else
    FMA_LOOP("ymm");
  return operations;
}

/// Returns the multiply-adds done, each of which needs the one before.
static double multiplyAddInTurn() {
  int64_t steps = 1000;
  asm volatile("vzeroall\n1:\n"
               "vfmadd231ps %%ymm1, %%ymm2, %%ymm0\nvfmadd231ps %%ymm1, %%ymm2, %%ymm0\n"
               "vfmadd231ps %%ymm1, %%ymm2, %%ymm0\nvfmadd231ps %%ymm1, %%ymm2, %%ymm0\n"
               "dec %0\njnz 1b\nvzeroupper\n"
               : "+r"(steps)
               :
               : VECTOR_REGISTERS, "cc");
  return 4 * 1000;
}

/// Returns the cycles taken: a multiplication of integers takes three on every CPU with AVX2, and no renamer
/// does it, as some do additions of constants.
static double countCycles() {
  int64_t steps = 1000, product = 1;
  asm volatile("1:\nimul %1, %1\nimul %1, %1\nimul %1, %1\nimul %1, %1\ndec %0\njnz 1b\n"
               : "+r"(steps), "+r"(product)
               :
               : "cc");
  return 3 * 4 * 1000;
}

/// `bytes` is a multiple of 512.
static double readAll(const char *data, size_t bytes) {
  const char *end = data + bytes;
  if (hasWideVectors())
    READ_LOOP("zmm", 64);
  else
    READ_LOOP("ymm", 32);
  return static_cast<double>(bytes);
}

#else

static bool hasVectors() { return false; }
static bool hasWideVectors() { return false; }
static double multiplyAdd() { return 0; }
static double multiplyAddInTurn() { return 0; }
static double countCycles() { return 0; }
static double readAll(const char *, size_t) { return 0; }

#endif

//===-- Measuring ---------------------------------------------------------===//

using Work = llvm::function_ref<double(int thread)>;

/// What all threads do together in a second, if each does `work` again and again for so long.
/// `prepare` comes first and does not count. Of each thread the best time is taken: in the others
/// something else ran, too.
static double measureRate(int threads, double seconds, Work prepare, Work work) {
  std::atomic<int> ready = 0;
  std::vector<double> rates(threads);
  auto run = [&](int thread) {
    prepare(thread);
    ++ready;
    while (ready < threads)
      std::this_thread::yield();
    auto secondsSince = [](Clock::time_point start) {
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    Clock::time_point start = Clock::now();
    do {
      Clock::time_point begin = Clock::now();
      double done = work(thread);
      rates[thread] = std::max(rates[thread], done / secondsSince(begin));
    } while (secondsSince(start) < seconds);
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread)
    others.emplace_back(run, thread);
  run(0);
  for (std::thread &other : others)
    other.join();
  double total = 0;
  for (double rate : rates)
    total += rate;
  return total;
}

double MachineLimits::getReadRate(int64_t bytes) const {
  if (reads.empty())
    return 0;
  auto larger = std::find_if(reads.begin(), reads.end(),
                             [&](const ReadRate &read) { return read.bytes >= bytes; });
  if (larger == reads.begin())
    return larger->rate;
  if (larger == reads.end())
    return reads.back().rate;
  const ReadRate &smaller = *(larger - 1);
  double part =
      std::log(double(bytes) / smaller.bytes) / std::log(double(larger->bytes) / smaller.bytes);
  return smaller.rate + part * (larger->rate - smaller.rate);
}

MachineLimits kiln::measureLimits(int threads, int64_t bytes) {
  constexpr double seconds = 0.015;
  // The last is larger than what caches of most machines hold.
  constexpr int64_t sizes[] = {1 << 16, 1 << 19, 1 << 22, 1 << 25, 1 << 27};
  constexpr size_t mostAtOnce = 4 << 20;
  MachineLimits limits;
  if (!hasVectors())
    return limits;
  auto nothing = [](int) { return 0.0; };
  limits.flops = measureRate(threads, seconds, nothing, [](int) { return multiplyAdd(); });
  size_t largest = sizes[std::size(sizes) - 1];
  void *memory = mmap(nullptr, largest, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return limits;
  madvise(memory, largest, MADV_HUGEPAGE); // a hint: may fail
  char *data = static_cast<char *>(memory);
  size_t stride = largest / threads / 4096 * 4096;
  for (int64_t size : sizes) {
    size_t part = std::max<size_t>(size / threads / 512 * 512, 512);
    double rate = measureRate(
        threads, seconds,
        [&](int thread) {
          memset(data + thread * stride, 1, part);
          return readAll(data + thread * stride, part);
        },
        [&, next = std::vector<size_t>(threads)](int thread) mutable {
          // Much longer than a look at the clock takes, and short beside what else the machine does.
          double done = 0;
          do {
            size_t &at = next[thread], bytes = std::min(part - at, mostAtOnce);
            done += readAll(data + thread * stride + at, bytes);
            at = at + bytes < part ? at + bytes : 0;
          } while (done < 1 << 20);
          return done;
        });
    limits.reads.push_back({size, rate});
    if (size >= bytes)
      break;
  }
  munmap(memory, largest);
  return limits;
}

CoreRates kiln::measureCore() {
  constexpr double seconds = 0.05; // for a clock to rise
  auto nothing = [](int) { return 0.0; };
  double hertz = measureRate(1, seconds, nothing, [](int) { return countCycles(); });
  double inTurn = measureRate(1, seconds, nothing, [](int) { return multiplyAddInTurn(); });
  return {hertz, hasWideVectors() ? 16.0 : 8.0, 1 / inTurn};
}
