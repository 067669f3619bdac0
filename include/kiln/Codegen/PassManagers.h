// Pass managers inside the compiler obey the command line as those of its stages do.
#ifndef KILN_CODEGEN_PASSMANAGERS_H
#define KILN_CODEGEN_PASSMANAGERS_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"

namespace kiln::codegen {

/// Adds what MLIR's options of the command line ask for: printing the IR around passes, statistics,
/// timing. Times are nested into `timing` if there is one; under --mlir-timing they are a report of
/// their own otherwise. A program that has not registered these options gets nothing but `timing`.
mlir::LogicalResult applyCommandLine(mlir::PassManager &pm, mlir::TimingScope *timing = nullptr);

} // namespace kiln::codegen

#endif // KILN_CODEGEN_PASSMANAGERS_H
