// Instrumentation of every pass manager, by the options that tools register.
#include "kiln/Codegen/PassManagers.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;

/// MLIR fails where its options are not registered, and has no question for it. One stands for all.
static bool hasOptions() {
  return llvm::cl::getRegisteredOptions().contains("mlir-print-ir-module-scope");
}

LogicalResult kiln::codegen::applyCommandLine(PassManager &pm, TimingScope *timing) {
  if (hasOptions() && failed(applyPassManagerCLOptions(pm)))
    return failure();
  if (timing)
    pm.enableTiming(*timing);
  else
    applyDefaultTimingPassManagerCLOptions(pm);
  return success();
}
