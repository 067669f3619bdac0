//===- Profile.h - What the steps of runs take ------------------*- C++ -*-===//
//
// Collects what a model says of its runs (kiln_options.profile), adds it up by step and by kernel,
// and compares it with what the machine can do at most.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_AOT_RUN_PROFILE_H
#define KILN_AOT_RUN_PROFILE_H

#include "../MachineLimits.h"
#include "kiln-c/model.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <map>
#include <string>
#include <vector>

namespace kiln::run {

/// Steps of one number, or of one kernel, in all runs.
struct StepTotal {
  std::string name, where;
  std::vector<int64_t> launches; // numbers
  std::vector<int64_t> times;    // of each run, ns
  int64_t time = 0;              // of a run: the median, for something else may run in some, too
  int64_t count = 0, tasks = 0;
  /// Sums; below 0: not known.
  int64_t bytes = 0, weightBytes = 0, flops = 0;
  /// The least time that the machine's limits allow, and that of operations and of bytes alone; 0:
  /// not known.
  double limit = 0, computeLimit = 0, memoryLimit = 0; // ns

  void add(const StepTotal &other);
  /// `time`, of so many runs; some may not have had the step.
  void findMedian(size_t runs);
};

class Profile {
public:
  /// A kiln_options.profile whose context is the profile.
  static void note(void *profile, const kiln_profile_event *event);

  /// Events count from now on.
  void start() { isRunning = true; }

  /// Adds up. `threads` are those of a run.
  void finish(int threads, bool isOnDevice);

  /// The kernels that take longest, as text.
  void print(llvm::raw_ostream &os) const;
  /// The file for chrome://tracing and Perfetto (docs/profiling.md).
  llvm::Error write(const std::string &path, const llvm::json::Value &info) const;

private:
  int64_t getMemory(llvm::StringRef name) const;
  void computeLimits(StepTotal &total) const;
  void writeEvents(llvm::json::OStream &json) const;
  void writeEvent(llvm::json::OStream &json, const kiln_profile_event &event) const;
  void writeSummary(llvm::json::OStream &json, const llvm::json::Value &info) const;
  void writeTotal(llvm::json::OStream &json, const StepTotal &total) const;

  bool isRunning = false;
  std::vector<kiln_profile_event> events; // as many as a trace has room for
  int64_t dropped = 0, origin = 0;        // of the trace's time
  std::map<int64_t, StepTotal> launches;
  std::map<std::string, int64_t> memory; // by what it is for: the most
  StepTotal run;                         // whole ones
  int threads = 1;
  MachineLimits limits;
  std::vector<StepTotal> kernels; // the longest first
};

} // namespace kiln::run

#endif // KILN_AOT_RUN_PROFILE_H
