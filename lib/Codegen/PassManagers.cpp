// Instrumentation of every pass manager, by the options that tools register.
#include "kiln/Codegen/PassManagers.h"

using namespace mlir;

LogicalResult kiln::codegen::applyCommandLine(PassManager &pm, TimingScope *timing) {
  if (failed(applyPassManagerCLOptions(pm)))
    return failure();
  if (timing)
    pm.enableTiming(*timing);
  else
    applyDefaultTimingPassManagerCLOptions(pm);
  return success();
}
