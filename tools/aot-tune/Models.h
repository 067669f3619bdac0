// Two models of the same program, timed in turns.
#ifndef KILN_AOT_TUNE_MODELS_H
#define KILN_AOT_TUNE_MODELS_H

#include "kiln/Tuning/Bundle.h"
#include "llvm/ADT/StringMap.h"

namespace kiln::tune {

/// The values of symbols that inputs have as sizes.
using Sizes = llvm::StringMap<int64_t>;

/// Times `second` against `first`, as two candidates of one kernel. Sizes of their inputs are numbers
/// or in `sizes`. An error: nothing can be measured of the first one.
llvm::Expected<tuning::KernelResult> compareModels(const std::string &first,
                                                   const std::string &second, int threads,
                                                   double seconds, const Sizes &sizes);

} // namespace kiln::tune

#endif // KILN_AOT_TUNE_MODELS_H
