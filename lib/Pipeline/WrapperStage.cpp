#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Pipeline/Pipeline.h"
#include "kiln/Transforms/Passes.h"

using namespace mlir;
using namespace kiln;

void kiln::buildWrapperStage(OpPassManager &pm) {
  pm.addPass(createKernelLowerToWrapper());
  OpPassManager &program = pm.nest<wrapper::ProgramOp>();
  // Before frees exist: it looks for last uses itself, and makes one buffer's life two's.
  program.addPass(createWrapperReuseInPlace());
  program.addPass(createWrapperInsertFrees());
  // Takes frees for places where memory can be had again.
  program.addPass(createWrapperReuseBuffers());
  program.addPass(createWrapperPlaceConstants());
  // Last: any step that is moved or added after this has no memory.
  program.addPass(createWrapperPlanMemory());
  program.addPass(createWrapperVerify());
}
