// Schedules that are measured instead of reckoned (docs/autotuning.md).
#ifndef KILN_TUNING_AUTOTUNE_H
#define KILN_TUNING_AUTOTUNE_H

#include "kiln/Targets/Target.h"
#include "llvm/ADT/StringMap.h"
#include <functional>
#include <memory>
#include <string>

namespace kiln::tuning {

/// Options of the search for schedules.
enum class Mode {
  None,
  Measure,     // candidates are timed on this machine
  WriteBundle, // candidates become the output, for aot-tune on another machine
  ReadResults, // what aot-tune has written decides
};

struct Options {
  Mode mode = Mode::None;
  /// The program aot-tune; of Measure.
  std::string tuner;
  /// The folder that keeps results for the next compilation; empty: none.
  std::string cache;
  /// It could not be written: nothing more is.
  std::shared_ptr<bool> isCacheBroken = std::make_shared<bool>(false);
  /// Results of aot-tune; read by ReadResults.
  std::string results;
  /// Threads that kernels are timed with; 0: all cores that this process may use.
  unsigned threads = 0;
  /// The most candidates of a kernel in a round.
  size_t candidates = 32;
  /// No round of candidates begins that would hardly end within this time.
  double seconds = 50;
  /// Values of symbols, rising; others have the sizes of the exported program's examples. One may
  /// have several, for kernels of different schedules.
  llvm::StringMap<std::vector<int64_t>> sizes;
  /// Called with what the user should know and that is no error.
  std::function<void(llvm::StringRef)> onWarning;
};

/// An error: this machine cannot run code for the target's host.
llvm::Error checkMachine(const Target &target);

/// Gives the kernels of `module`, which are scheduled, the schedules that are fastest. An error is
/// the options' fault, or this machine's. `code` is how kernels are compiled.
llvm::Error autotune(mlir::ModuleOp module, const Target &target, llvm::StringRef compiler,
                     const Options &options, const codegen::ObjectOptions &code);

/// Writes a bundle of the kernels of `module`, which are scheduled, and of their candidates.
llvm::Error writeBundle(mlir::ModuleOp module, const Target &target, llvm::StringRef compiler,
                        const Options &options, const codegen::ObjectOptions &code,
                        llvm::StringRef path);

/// The folder for results if none is given: in $XDG_CACHE_HOME or ~/.cache.
std::string getDefaultCache();

} // namespace kiln::tuning

#endif // KILN_TUNING_AUTOTUNE_H
