// The numbers of this machine's CPU that kernels are planned with.
#ifndef KILN_AOT_TUNE_CALIBRATE_H
#define KILN_AOT_TUNE_CALIBRATE_H

#include "llvm/Support/Error.h"
#include <string>

namespace kiln::tune {

/// As `aot-compile --cpu-tune` takes them: `clock=4100,l1=49152,…`. Measured on one thread, in about half a second.
llvm::Expected<std::string> calibrate();

} // namespace kiln::tune

#endif // KILN_AOT_TUNE_CALIBRATE_H
