// Earlier measurements: a file for each kernel.
#ifndef KILN_LIB_TUNING_TUNINGCACHE_H
#define KILN_LIB_TUNING_TUNINGCACHE_H

#include "llvm/ADT/StringMap.h"
#include <functional>
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
  using Report = std::function<void(const std::string &)>;

  /// `folder` may be empty: nothing is kept. `report` hears of files that are not what they should
  /// be, and once if none can be written.
  TuningCache(llvm::StringRef folder, Report report) : folder(folder), report(std::move(report)) {}

  std::optional<TuningEntry> lookup(llvm::StringRef key);
  void store(llvm::StringRef key, const TuningEntry &entry);

private:
  std::string getPath(llvm::StringRef key) const;

  std::string folder;
  llvm::StringMap<TuningEntry> known;
  Report report;
  bool isUsable = true;
};

} // namespace kiln::tuning

#endif // KILN_LIB_TUNING_TUNINGCACHE_H
