// Two models of the same program, one of which is to replace the other.
#ifndef KILN_TUNING_DUELS_H
#define KILN_TUNING_DUELS_H

#include "kiln/Tuning/Autotune.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace kiln::tuning {

struct Duel {
  bool isWon = false;
  /// The challenger's time as a part of the other's.
  double ratio = 1;
  /// The reason why the challenger cannot be used.
  std::string failure;
};

/// Times the models that `build` writes, the challenger and the other one, or says what the cache
/// knows of `key`. An error: the other one cannot be built or run.
llvm::Expected<Duel>
runDuel(llvm::StringRef key, const Options &options,
        llvm::function_ref<llvm::Error(bool challenger, llvm::StringRef path)> build);

} // namespace kiln::tuning

#endif // KILN_TUNING_DUELS_H
