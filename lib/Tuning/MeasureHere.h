// Schedules that are measured while the compiler runs.
#ifndef KILN_LIB_TUNING_MEASUREHERE_H
#define KILN_LIB_TUNING_MEASUREHERE_H

#include "Choices.h"

namespace kiln::tuning {

/// Adds what is fastest at each point. `device` is what is measured on.
llvm::Error measureHere(mlir::ModuleOp module, const Target &target, llvm::StringRef compiler,
                        llvm::StringRef device, const Options &options, Bundler &bundler,
                        const Points &points, Choices &choices);

} // namespace kiln::tuning

#endif // KILN_LIB_TUNING_MEASUREHERE_H
