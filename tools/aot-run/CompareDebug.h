// Two runs that debug printing has saved, tensor by tensor.
#ifndef KILN_AOT_RUN_COMPAREDEBUG_H
#define KILN_AOT_RUN_COMPAREDEBUG_H

#include "llvm/Support/Error.h"
#include <string>

namespace llvm {
class raw_ostream;
}

namespace kiln::run {

/// Elements are the same if they differ by at most atol + rtol times the larger of their sizes.
struct Tolerance {
  double rtol, atol;
};

/// Looks for the first tensor that differs, in the order of the first run's launches, and says on
/// `os` what it is. True if none does. A folder is a run's, or holds a single one.
llvm::Expected<bool> compareDebug(const std::string &first, const std::string &second,
                                  Tolerance tolerance, llvm::raw_ostream &os);

} // namespace kiln::run

#endif // KILN_AOT_RUN_COMPAREDEBUG_H
