// Models of the same program, one of which is to replace the first.
#ifndef KILN_TUNING_DUELS_H
#define KILN_TUNING_DUELS_H

#include "kiln/Tuning/Autotune.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace kiln::tuning {

struct Duel {
  /// Empty: none of them.
  std::string winner;
  /// The winner's time, or the last challenger's, as a part of the first model's.
  double ratio = 1;
  /// The reason why the last challenger cannot be used.
  std::string failure;
};

struct DuelOptions {
  /// The kind of thing that is compared, for the names of entries in the cache.
  llvm::StringRef kind;
  /// Everything that results depend on.
  llvm::StringRef key;
  std::vector<std::string> challengers;
  /// About as long two models are timed.
  double seconds = 2;
  /// The part of the first model's time that the winner must save, beyond noise.
  double leastGain = 0;
  /// No challenger is built after so long.
  double mostSeconds = 1e9;
  /// Sizes of the models' inputs, NAME=NUMBER.
  std::vector<std::string> sizes = {};
};

/// Times the models that `build` writes, the first one (its name is empty) and the challengers, or
/// says what the cache knows. An error: the first one cannot be built or run.
llvm::Expected<Duel>
runDuels(const DuelOptions &duel, const Options &options,
         llvm::function_ref<llvm::Error(llvm::StringRef challenger, llvm::StringRef path)> build);

} // namespace kiln::tuning

#endif // KILN_TUNING_DUELS_H
