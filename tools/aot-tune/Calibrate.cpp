// Measures the clock, the multiply-add units and the memory of this machine, and asks the system for its caches.
#include "Calibrate.h"
#include "../MachineLimits.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Threading.h"
#include <algorithm>
#include <cmath>
#include <unistd.h>

using namespace llvm;
using namespace kiln;

Expected<std::string> tune::calibrate() {
  MachineLimits limits = measureLimits(/*threads=*/1, /*bytes=*/INT64_MAX);
  if (limits.flops <= 0 || limits.reads.empty())
    return createStringError("this machine has no AVX2, which every model for CPUs needs");
  CoreRates core = measureCore();
  SmallVector<std::string> numbers;
  // Numbers that the system does not know stay those that are known of the CPU.
  auto add = [&](const char *name, double value) {
    if (value >= 1)
      numbers.push_back(std::string(name) + "=" + std::to_string(std::llround(value)));
  };
  add("clock", core.hertz / 1e6);
  add("memory_rate", limits.reads.back().rate / 1e6);
  add("fma_units", std::clamp(std::round(limits.flops / core.lanes / 2 / core.hertz), 1.0, 8.0));
  add("fma_latency", std::clamp(std::round(core.fmaSeconds * core.hertz), 1.0, 8.0));
  add("l1", double(sysconf(_SC_LEVEL1_DCACHE_SIZE)));
  add("l2", double(sysconf(_SC_LEVEL2_CACHE_SIZE)));
  add("cache_line", double(sysconf(_SC_LEVEL1_DCACHE_LINESIZE)));
  add("cores", hardware_concurrency().compute_thread_count());
  return join(numbers, ",");
}
