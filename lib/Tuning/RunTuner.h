// aot-tune, as the compiler runs it.
#ifndef KILN_LIB_TUNING_RUNTUNER_H
#define KILN_LIB_TUNING_RUNTUNER_H

#include "kiln/Tuning/Autotune.h"
#include "kiln/Tuning/Bundle.h"
#include "llvm/ADT/SmallString.h"

namespace kiln::tuning {

/// An empty file, which a signal removes. Its owner removes it otherwise.
llvm::Error createTemporary(llvm::StringRef suffix, llvm::SmallString<128> &path);

/// Measurements of `input` by aot-tune, with these options of its own.
llvm::Expected<Results> runTuner(const Options &options, llvm::StringRef input, double seconds,
                                 llvm::ArrayRef<std::string> more = {});

/// The architecture (`sm_90`) and the name of this machine's GPU.
llvm::Expected<std::pair<std::string, std::string>> findGpu(const Options &options);

} // namespace kiln::tuning

#endif // KILN_LIB_TUNING_RUNTUNER_H
