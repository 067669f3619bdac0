// The passes that give each kernel its schedule, for its target.
#include "kiln/Codegen/Passes.h"
#include "kiln/Pipeline/Pipeline.h"

using namespace mlir;
using namespace kiln;

void kiln::buildScheduleStage(OpPassManager &pm, const Target &target, const Target &host) {
  codegen::buildSimplifyBodiesPipeline(pm);
  target.buildScheduleKernels(pm);
  // Leaves alone what has been planned for the device.
  if (target.hasDevice())
    host.buildScheduleKernels(pm);
}
