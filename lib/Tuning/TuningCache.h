// Earlier measurements: a file for each kernel.
#ifndef KILN_LIB_TUNING_TUNINGCACHE_H
#define KILN_LIB_TUNING_TUNINGCACHE_H

#include "kiln/Tuning/Autotune.h"
#include "llvm/ADT/StringMap.h"
#include <optional>
#include <string>

namespace kiln::tuning {

/// Earlier results for a kernel on a machine.
struct TuningEntry {
  /// With the planner's schedule; 0: it cannot be measured.
  double seconds = 0;
  /// Candidates have been tried.
  bool isTuned = false;
  /// Runs of a program have shown that the schedule is faster there.
  bool isVerified = false;
  /// The fastest one; empty: the planner's.
  std::string schedule;
  /// Its time as a part of the planner's.
  double ratio = 1;
  /// The reason why it cannot be measured.
  std::string failure;
};

/// Several processes may use one folder: a file appears when it is complete, and whichever comes
/// last stays. What this process has found is known to it without a folder, too.
class TuningCache {
public:
  /// A warning says which files are not what they should be, and one in all if none can be written.
  explicit TuningCache(const Options &options) : options(options), folder(options.cache) {}

  std::optional<TuningEntry> lookup(llvm::StringRef key);
  void store(llvm::StringRef key, const TuningEntry &entry);

private:
  std::string getPath(llvm::StringRef key) const;

  void report(const std::string &text) const {
    if (options.onWarning)
      options.onWarning("--autotune: " + text);
  }

  const Options &options;
  std::string folder;
  llvm::StringMap<TuningEntry> known;
};

} // namespace kiln::tuning

#endif // KILN_LIB_TUNING_TUNINGCACHE_H
