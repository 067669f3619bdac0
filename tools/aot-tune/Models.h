// Two models of the same program, timed in turns.
#ifndef KILN_AOT_TUNE_MODELS_H
#define KILN_AOT_TUNE_MODELS_H

#include "kiln/Tuning/Bundle.h"

namespace kiln::tune {

/// Times `second` against `first`, as two candidates of one kernel. Their inputs have sizes that are
/// numbers. An error: nothing can be measured of the first one.
llvm::Expected<tuning::KernelResult>
compareModels(const std::string &first, const std::string &second, int threads, double seconds);

} // namespace kiln::tune

#endif // KILN_AOT_TUNE_MODELS_H
