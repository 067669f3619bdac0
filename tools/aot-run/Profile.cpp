// Collects events, adds them up, and prints the kernels that take longest.
#include "Profile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include <cstring>

using namespace llvm;
using namespace kiln::run;

/// A trace of more events is of no use to anyone.
static constexpr size_t mostEvents = 1 << 20;

static void addKnown(int64_t &sum, int64_t value) {
  sum = sum < 0 || value < 0                              ? -1
        : SaturatingAdd<uint64_t>(sum, value) > INT64_MAX ? -1
                                                          : sum + value;
}

void StepTotal::add(const StepTotal &other) {
  if (count == 0) {
    name = other.name;
    where = other.where;
  }
  launches.insert(launches.end(), other.launches.begin(), other.launches.end());
  times.resize(std::max(times.size(), other.times.size()));
  for (auto [time, more] : zip(times, other.times))
    time += more;
  count += other.count;
  tasks += other.tasks;
  addKnown(bytes, other.bytes);
  addKnown(weightBytes, other.weightBytes);
  addKnown(flops, other.flops);
  limit += other.limit;
  computeLimit += other.computeLimit;
  memoryLimit += other.memoryLimit;
}

void StepTotal::findMedian(size_t runs) {
  times.resize(runs);
  std::vector<int64_t> sorted(times);
  llvm::sort(sorted);
  time = runs ? sorted[runs / 2] : 0;
}

void Profile::note(void *profile, const kiln_profile_event *given) {
  auto *self = static_cast<Profile *>(profile);
  if (!self->isRunning)
    return;
  kiln_profile_event event = {};
  memcpy(&event, given, std::min<size_t>(given->struct_size, sizeof event));
  if (self->events.size() < mostEvents)
    self->events.push_back(event);
  else
    ++self->dropped;
  size_t runs = self->run.times.size();
  if (event.kind == KILN_PROFILE_RUN) {
    self->run.times.push_back(event.end - event.begin);
  } else if (event.kind == KILN_PROFILE_MEMORY) {
    int64_t &bytes = self->memory[event.name];
    bytes = std::max(bytes, event.bytes);
  } else if (event.kind == KILN_PROFILE_STEP) {
    StepTotal &total = self->launches[event.launch];
    if (total.launches.empty()) {
      total.name = event.name;
      total.where = event.where;
      total.launches.push_back(event.launch);
    }
    ++total.count;
    total.times.resize(runs + 1);
    total.times.back() += event.end - event.begin;
    total.tasks += event.tasks;
    addKnown(total.bytes, event.bytes);
    addKnown(total.weightBytes, event.weight_bytes);
    addKnown(total.flops, event.flops);
  }
}

//===-- Sums --------------------------------------------------------------===//

int64_t Profile::getMemory(StringRef name) const {
  auto found = memory.find(name.str());
  return found == memory.end() ? 0 : found->second;
}

/// Weights come from wherever the memory of the whole model fits in, since everything else of it has
/// been read since they were last; other data were written just before.
void Profile::computeLimits(StepTotal &total) const {
  if (!total.count)
    return;
  if (total.flops > 0 && limits.flops > 0)
    total.computeLimit = 1e9 * total.flops / limits.flops;
  if (total.bytes > 0 && !limits.reads.empty()) {
    int64_t model = 0;
    for (const auto &[name, bytes] : memory)
      model += bytes;
    int64_t others = total.bytes - total.weightBytes;
    total.memoryLimit = 1e9 * (total.weightBytes / limits.getReadRate(model) +
                               others / limits.getReadRate(others / total.count));
  }
  total.limit = std::max(total.computeLimit, total.memoryLimit);
}

void Profile::finish(int usedThreads, bool isOnDevice) {
  isRunning = false;
  threads = usedThreads;
  int64_t largest = getMemory("weights") + getMemory("arena");
  for (const auto &[number, total] : launches)
    largest = std::max(largest, total.bytes / std::max<int64_t>(total.count, 1));
  if (!isOnDevice)
    limits = measureLimits(threads, largest);
  for (const kiln_profile_event &event : events)
    origin = origin ? std::min(origin, event.begin) : event.begin;
  run.findMedian(run.times.size());
  StringMap<size_t> known;
  for (auto &[number, total] : launches) {
    computeLimits(total);
    total.findMedian(run.times.size());
    auto [place, isNew] = known.try_emplace(total.name, kernels.size());
    if (isNew)
      kernels.emplace_back();
    kernels[place->second].add(total);
  }
  for (StepTotal &kernel : kernels)
    kernel.findMedian(run.times.size());
  llvm::sort(kernels, [](const StepTotal &a, const StepTotal &b) {
    return std::pair(-a.time, a.launches) < std::pair(-b.time, b.launches);
  });
}

//===-- The table ---------------------------------------------------------===//

static std::string describeBytes(int64_t bytes) {
  if (bytes >= 10'000'000)
    return formatv("{0:f1} MB", bytes / 1e6);
  return formatv("{0:f1} KB", bytes / 1e3);
}

/// A number with `digits` decimals, "-" if there is none.
static std::string describeNumber(double value, int digits) {
  if (!(value > 0))
    return "-";
  char text[32];
  snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

static std::string describeTime(double milliseconds) {
  return describeNumber(milliseconds, milliseconds >= 0.1 ? 3 : 5);
}

static std::string describeBound(const StepTotal &total) {
  if (!(total.limit > 0))
    return "-";
  return total.computeLimit >= total.memoryLimit ? "compute" : "memory";
}

/// The node, and the Python file without its folder.
static std::string describePlace(const StepTotal &total) {
  StringRef where = total.where;
  auto [node, file] = where.split(" (");
  std::string place = node.str();
  if (!file.empty())
    place += (" (" + file.drop_front(file.rfind('/') + 1)).str();
  if (total.launches.size() > 1)
    place += formatv(" and {0} more", total.launches.size() - 1);
  return place;
}

void Profile::print(raw_ostream &os) const {
  constexpr size_t mostKernels = 20;
  int64_t time = 0, runs = run.times.size();
  size_t width = strlen("kernel");
  for (auto [i, kernel] : enumerate(kernels)) {
    time += kernel.time;
    if (i < mostKernels)
      width = std::max(width, kernel.name.size());
  }
  os << formatv("profile of {0} run{1} on {2} thread{3}: {4} ms a run, {5:f1} % of it in {6} "
                "kernel{7}\n",
                runs, runs == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
                describeTime(run.time / 1e6), run.time ? 100.0 * time / run.time : 0,
                kernels.size(), kernels.size() == 1 ? "" : "s");
  if (!memory.empty()) {
    os << "memory: ";
    interleaveComma(memory, os, [&](const auto &entry) {
      os << entry.first << ' ' << describeBytes(entry.second);
    });
    os << '\n';
  }
  if (limits.flops > 0) {
    os << formatv("this machine: {0:f0} GFLOP/s in float32; reads of ", limits.flops / 1e9);
    interleaveComma(limits.reads, os, [&](const MachineLimits::ReadRate &read) {
      os << describeBytes(read.bytes) << formatv(" {0:f0} GB/s", read.rate / 1e9);
    });
    os << '\n';
  }
  auto row = [&](StringRef name, ArrayRef<std::string> numbers, StringRef where) {
    os << "  " << left_justify(name, width);
    for (const std::string &number : numbers)
      os << right_justify(number, 10);
    os << "  " << where << '\n';
  };
  row("kernel", {"count", "ms", "share", "GB/s", "GFLOP/s", "roofline", "bound"}, "of");
  for (const StepTotal &kernel : ArrayRef(kernels).take_front(mostKernels)) {
    // Of all runs, if each took as long as the median.
    double time = double(std::max<int64_t>(kernel.time, 1)) * runs;
    double share = run.time ? 100.0 * kernel.time / run.time : 0;
    row(kernel.name,
        {describeNumber(double(kernel.count) / runs, kernel.count % runs ? 1 : 0),
         describeTime(kernel.time / 1e6), describeNumber(share, 1) + " %",
         describeNumber(kernel.bytes / time, 1), describeNumber(kernel.flops / time, 1),
         kernel.limit > 0 ? describeNumber(100 * kernel.limit / time, 0) + " %" : "-",
         describeBound(kernel)},
        describePlace(kernel));
  }
  if (kernels.size() > mostKernels)
    os << "  and " << kernels.size() - mostKernels << " more, which the file has\n";
}
